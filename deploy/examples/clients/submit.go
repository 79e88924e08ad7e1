// Submit a job with nothing but a NATS client for Go: go get github.com/nats-io/nats.go github.com/oklog/ulid/v2 golang.org/x/crypto
//
//	HEADRACE_URL=tls://gpus.example:4222 HEADRACE_TOKEN=... go run submit.go acme alice ai-dev/half echo hello
//
// The first two arguments are the tenant and the handle that the token speaks for. Prints the job's id once it is stored.
package main

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/oklog/ulid/v2"
	"golang.org/x/crypto/blake2b"
)

func main() {
	token, tenant, handle, queue := os.Getenv("HEADRACE_TOKEN"), os.Args[1], os.Args[2], os.Args[3]

	// Answers reach this connection only below a prefix that is made from the token.
	hash, _ := blake2b.New(16, nil)
	hash.Write([]byte(token))
	inbox := "_INBOX_t_" + hex.EncodeToString(hash.Sum(nil))
	client, err := nats.Connect(os.Getenv("HEADRACE_URL"), nats.UserInfo(tenant+"_"+handle, token), nats.CustomInboxPrefix(inbox))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	id := strings.ToLower(ulid.Make().String())
	job, _ := json.Marshal(map[string]any{"id": id, "command": os.Args[4:]})
	subject := "hr.submit." + tenant + "." + handle + "." + strings.ReplaceAll(queue, "/", ".")
	for { // the same id is the same job, so it may be sent again until it is stored
		answer, err := client.Request(subject, job, 5*time.Second)
		if err != nil {
			time.Sleep(250 * time.Millisecond)
			continue
		}
		var stored struct {
			Error *struct{ Description string }
		}
		if err := json.Unmarshal(answer.Data, &stored); err != nil || stored.Error != nil {
			log.Fatalf("not stored: %s", answer.Data)
		}
		fmt.Println(id)
		return
	}
}
