/* Starts a program with a /dev of its own that contains only the named nodes:
 *
 *     private_dev NODE... -- PROGRAM ARGUMENT...
 *
 * For ordinary users: it makes a user namespace in which it may mount, and gives that up before the program begins. The program has the same
 * user and no capabilities; a namespace that it makes itself cannot take the mounts apart, because those of a less trusted one are locked.
 * Exit code 125: the surroundings could not be made; 127: the program could not be started.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

static const char STAGE[] = "/tmp";

static void die(const char *what) {
  fprintf(stderr, "private_dev: %s: %s\n", what, strerror(errno));
  _exit(125);
}
static void put(const char *path, const char *text) {
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0 || write(fd, text, strlen(text)) < 0) die(path);
  close(fd);
}
static void folders_of(char *path) {
  for (char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
    *at = 0;
    if (mkdir(path, 0755) && errno != EEXIST) die(path);
    *at = '/';
  }
}
/* Bind a node below /dev into the new one, which is mounted at STAGE meanwhile. */
static void bring(const char *node) {
  char to[4096];
  struct stat found;
  if (strncmp(node, "/dev/", 5) || strstr(node, "..") || stat(node, &found)) return;
  snprintf(to, sizeof to, "%s/%s", STAGE, node + 5);
  folders_of(to);
  int fd = open(to, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) die(to);
  close(fd);
  if (mount(node, to, NULL, MS_BIND, NULL)) die(node);
}
static void link_to(const char *name, const char *target) {
  char at[256];
  snprintf(at, sizeof at, "%s/%s", STAGE, name);
  if (symlink(target, at)) die(at);
}

int main(int argc, char **argv) {
  int end = 1;
  char line[64];
  unsigned uid = getuid(), gid = getgid();
  while (end < argc && strcmp(argv[end], "--")) end++;
  if (end + 1 >= argc) { fprintf(stderr, "private_dev: write NODE... -- PROGRAM\n"); return 125; }
  if (unshare(CLONE_NEWUSER | CLONE_NEWNS)) die("unshare");
  put("/proc/self/setgroups", "deny");
  snprintf(line, sizeof line, "%u %u 1\n", uid, uid);
  put("/proc/self/uid_map", line);
  snprintf(line, sizeof line, "%u %u 1\n", gid, gid);
  put("/proc/self/gid_map", line);
  if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL)) die("private mounts");
  if (mount("headrace", STAGE, "tmpfs", MS_NOSUID, "mode=0755,size=1m")) die("tmpfs");
  for (int i = 1; i < end; i++) bring(argv[i]);
  link_to("fd", "/proc/self/fd");
  link_to("stdin", "fd/0");
  link_to("stdout", "fd/1");
  link_to("stderr", "fd/2");
  char to[256];
  snprintf(to, sizeof to, "%s/shm", STAGE);
  if (mkdir(to, 0755) || mount("/dev/shm", to, NULL, MS_BIND | MS_REC, NULL)) die("/dev/shm");
  if (access("/dev/pts", F_OK) == 0) {
    snprintf(to, sizeof to, "%s/pts", STAGE);
    if (mkdir(to, 0755) || mount("/dev/pts", to, NULL, MS_BIND | MS_REC, NULL)) die("/dev/pts");
  }
  if (mount(STAGE, "/dev", NULL, MS_MOVE, NULL)) die("/dev");
  for (int capability = 0; capability < 64; capability++) prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) die("no new privileges");
  execvp(argv[end + 1], argv + end + 1);
  fprintf(stderr, "private_dev: %s: %s\n", argv[end + 1], strerror(errno));
  return 127;
}
