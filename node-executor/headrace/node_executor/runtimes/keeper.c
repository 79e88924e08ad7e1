/* Keeps jobs, so that they outlive the executor: the same program as keeper.py, which has the formats of orders and reports; in C,
 * because every job costs one fork of it and the memory that it has touched.
 *
 *     keeper ORDERS REPORTS LOCK PADDING      (numbers of descriptors; the padding is room for a longer name in `ps`)
 *
 * The spawner reads orders and forks a keeper for each; a keeper starts one job, records its start and its end, writes its
 * output, and passes signals on. Its state is its own stack, and it depends on no other process.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHUNK 65536
#define LOOKS 8 /* maximum, against processes that fork while they are looked for */
#define SEGMENTS 4 /* a log has a head and at most three newer pieces, each a fourth of its limit */

struct job {
    const char *id, *state, *log, *directory, *group, *kill;
    long long limit;
    long uid, gid;
    int wait; /* milliseconds in which it has to begin */
    char **enter, **groups, **prefix, **argv, **envp;
};

struct log {
    int head, now;         /* the first piece, which is also the lock, and the one being written */
    long long start;       /* of the piece being written, in bytes since the first */
    long long dropped;     /* bytes that the disk refused */
    char folder[4096];
};

static int reports, lock_fd;
static char *title;
static size_t title_room;

static long long now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (long long)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* Orders */

static char *take(char **cursor, char *end) {
    char *text = *cursor, *stop = text < end ? memchr(text, 0, (size_t)(end - text)) : NULL;
    if (stop == NULL) _exit(3); /* malformed: not from the executor */
    *cursor = stop + 1;
    return text;
}

static char **take_list(char **cursor, char *end) {
    long count = atol(take(cursor, end));
    if (count < 0 || count > end - *cursor + 1) _exit(3);
    char **list = calloc((size_t)count + 1, sizeof *list);
    if (list == NULL) _exit(3);
    for (long i = 0; i < count; i++) list[i] = take(cursor, end);
    return list;
}

static struct job read_job(char *text, size_t size) {
    char *cursor = text, *end = text + size;
    struct job job = {0};
    job.id = take(&cursor, end);
    job.state = take(&cursor, end);
    job.log = take(&cursor, end);
    job.limit = atoll(take(&cursor, end));
    job.directory = take(&cursor, end);
    job.wait = atoi(take(&cursor, end));
    job.uid = atol(take(&cursor, end));
    job.gid = atol(take(&cursor, end));
    job.group = take(&cursor, end);
    job.kill = take(&cursor, end);
    job.enter = take_list(&cursor, end);
    job.groups = take_list(&cursor, end);
    job.prefix = take_list(&cursor, end);
    job.argv = take_list(&cursor, end);
    job.envp = take_list(&cursor, end);
    return job;
}

/* Reports */

static void report(const char *text, size_t size, int descriptor) {
    struct iovec part = {(void *)text, size};
    char room[CMSG_SPACE(sizeof(int))] = {0};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (descriptor >= 0) {
        message.msg_control = room;
        message.msg_controllen = sizeof room;
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(header), &descriptor, sizeof(int));
    }
    while (sendmsg(reports, &message, MSG_NOSIGNAL) < 0 && errno == EINTR) continue;
}

static void report_failure(const char *id, const char *stage, int number, int place) {
    char text[512];
    int size = snprintf(text, sizeof text, "%s failed %s %d %d", id, stage, number, place);
    report(text, (size_t)size, -1);
}

/* The job's own process, before it becomes the job. A stage that fails is reported with its errno. */

struct fault { char stage[16]; int number, place; };

static void give_up_at(int tell, const char *stage, int place) {
    struct fault fault = {.number = errno, .place = place};
    strncpy(fault.stage, stage, sizeof fault.stage - 1);
    if (write(tell, &fault, sizeof fault) < 0) _exit(126);
    _exit(126);
}

static void give_up(int tell, const char *stage) { give_up_at(tell, stage, -1); }

/* Write the file that the command means, as a shell would find it, into `found`; 0 on failure, with the last folder's errno. */
static int find(struct job *job, char *found, size_t room, int *place) {
    const char *name = job->argv[0], *path = "/bin:/usr/bin";
    for (char **variable = job->envp; *variable; variable++) if (!strncmp(*variable, "PATH=", 5)) path = *variable + 5;
    if (strchr(name, '/')) path = "";
    int number = ENOENT;
    *place = -1;
    for (int count = 0;; count++) {
        size_t length = strcspn(path, ":");
        const char *from = *path == '/' || *name == '/' ? "" : job->directory;
        const char *before = *from ? "/" : "", *after = length ? "/" : "";
        int size = snprintf(found, room, "%s%s%.*s%s%s", from, before, (int)length, path, after, name);
        struct stat kind;
        if (size < 0 || (size_t)size >= room) number = ENAMETOOLONG;
        else if (stat(found, &kind) < 0) number = errno;
        else if (!S_ISDIR(kind.st_mode) && access(found, X_OK) == 0) return 1;
        else {
            number = EACCES;
            if (S_ISREG(kind.st_mode)) *place = count;
        }
        if (path[length] == 0) break;
        path += length + 1;
    }
    errno = number;
    return 0;
}

/* Execute the program, or its prefix with the program's whole path among the arguments. */
static void run(struct job *job, char *program, int tell) {
    size_t before = 0, own = 0;
    while (job->prefix[before]) before++;
    while (job->argv[own]) own++;
    if (before) {
        char **argv = calloc(before + own + 1, sizeof *argv);
        if (argv == NULL) give_up(tell, "prefix");
        memcpy(argv, job->prefix, before * sizeof *argv);
        memcpy(argv + before, job->argv, own * sizeof *argv);
        argv[before] = program;
        execve(argv[0], argv, job->envp);
        give_up(tell, "prefix");
    }
    execve(program, job->argv, job->envp);
    give_up(tell, errno == ENOENT && access(program, F_OK) == 0 ? "interpreter" : "exec");
}

static void become(struct job *job, int output, int tell) {
    sigset_t none;
    struct sigaction usual = {.sa_handler = SIG_DFL};
    for (int number = 1; number < 32; number++) sigaction(number, &usual, NULL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setsid();
    for (char **path = job->enter; *path; path++) {
        int file = open(*path, O_WRONLY | O_CLOEXEC);
        if (file < 0 || write(file, "0", 1) != 1) give_up(tell, "cgroup");
        close(file);
    }
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null < 0 || dup2(null, 0) < 0 || dup2(output, 1) < 0 || dup2(output, 2) < 0) give_up(tell, "output");
    if (job->gid >= 0) {
        gid_t groups[64];
        size_t count = 0;
        while (count < sizeof groups / sizeof *groups && job->groups[count]) {
            groups[count] = (gid_t)atol(job->groups[count]);
            count++;
        }
        if (setgroups(count, groups) < 0 || setresgid((gid_t)job->gid, (gid_t)job->gid, (gid_t)job->gid) < 0) give_up(tell, "account");
    }
    if (job->uid >= 0 && setresuid((uid_t)job->uid, (uid_t)job->uid, (uid_t)job->uid) < 0) give_up(tell, "account");
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) give_up(tell, "privileges");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (chdir(job->directory) < 0) give_up(tell, "directory");
    char program[4096];
    int place = -1;
    if (job->argv[0] == NULL || !find(job, program, sizeof program, &place)) give_up_at(tell, "search", place);
    run(job, program, tell);
}

static pid_t start(struct job *job, int output, struct fault *fault) {
    int tell[2];
    if (pipe2(tell, O_CLOEXEC) < 0) return -1;
    struct clone_args how = {.exit_signal = SIGCHLD};
    int group = -1;
    if (*job->group) {
        group = open(job->group, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
        how.flags = CLONE_INTO_CGROUP;
        how.cgroup = (uint64_t)group;
    }
    pid_t pid = group < 0 && *job->group ? -1 : (pid_t)(*job->group ? syscall(SYS_clone3, &how, sizeof how) : fork());
    if (pid == 0) become(job, output, tell[1]);
    int number = errno;
    if (group >= 0) close(group);
    close(tell[1]);
    ssize_t size = 0;
    struct pollfd begun = {tell[0], POLLIN, 0};
    int ready = 1;
    if (pid > 0) while ((ready = poll(&begun, 1, job->wait)) < 0 && errno == EINTR) continue;
    if (ready == 0) {
        kill(pid, SIGKILL); /* not waited for: it may itself wait for a disk that does not answer */
        strcpy(fault->stage, "late");
        fault->number = ETIMEDOUT;
        return -1;
    }
    if (pid > 0) while ((size = read(tell[0], fault, sizeof *fault)) < 0 && errno == EINTR) continue;
    close(tell[0]);
    if (pid < 0) {
        strcpy(fault->stage, *job->group && number != EAGAIN && number != ENOMEM ? "cgroup" : "fork");
        fault->number = number;
        return -1;
    }
    if (size == (ssize_t)sizeof *fault) {
        waitpid(pid, NULL, 0);
        return -1;
    }
    return pid;
}

/* Output of the job. Two keepers may write one log, a job's and its callback's: the first piece is the lock. */

static long long size_of(int file) {
    struct stat found;
    return fstat(file, &found) < 0 ? 0 : (long long)found.st_size;
}

static int open_piece(struct log *log, long long start) {
    char path[4200];
    snprintf(path, sizeof path, "%s/%lld", log->folder, start);
    return open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
}

/* Return the piece to write to, a new one if the last is full; with too many pieces the oldest except the head is removed. */
static void turn(struct log *log, long long piece) {
    while (size_of(log->now) >= piece) {
        long long newest = log->start, oldest = -1;
        int count = 0;
        mkdir(log->folder, 0750);
        DIR *folder = opendir(log->folder);
        for (struct dirent *entry; folder && (entry = readdir(folder));) {
            if (entry->d_name[0] < '0' || entry->d_name[0] > '9') continue;
            long long start = atoll(entry->d_name);
            count++;
            if (start > newest) newest = start;
            if (oldest < 0 || start < oldest) oldest = start;
        }
        if (folder) closedir(folder);
        if (newest == log->start) {
            newest = log->start + size_of(log->now);
            if (++count >= SEGMENTS) {
                char path[4200];
                snprintf(path, sizeof path, "%s/%lld", log->folder, oldest);
                unlink(path);
            }
        }
        int next = open_piece(log, newest);
        if (next < 0) return;
        if (log->now != log->head) close(log->now);
        log->now = next;
        log->start = newest;
    }
}

static int append(int file, const char *data, size_t size) {
    while (size) {
        ssize_t written = write(file, data, size);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return 0;
        data += written;
        size -= (size_t)written;
    }
    return 1;
}

static void print(struct log *log, struct job *job, const char *data, size_t size) {
    if (log->head < 0) {
        log->head = log->now = open(job->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
        log->start = 0;
        snprintf(log->folder, sizeof log->folder, "%s.d", job->log);
    }
    if (log->head < 0) {
        log->dropped += (long long)size;
        return;
    }
    flock(log->head, LOCK_EX);
    long long piece = job->limit / SEGMENTS > 0 ? job->limit / SEGMENTS : 1;
    if (log->dropped) {
        char text[128];
        int length = snprintf(text, sizeof text, "\n[headrace] %lld bytes were dropped: the disk was full\n", log->dropped);
        if (append(log->now, text, (size_t)length)) log->dropped = 0;
    }
    while (size) {
        turn(log, piece);
        long long room = piece - size_of(log->now);
        size_t part = room <= 0 || (long long)size < room ? size : (size_t)room;
        if (!append(log->now, data, part)) {
            log->dropped += (long long)size;
            break;
        }
        data += part;
        size -= part;
    }
    flock(log->head, LOCK_UN);
}

/* Write one piece of output, if there is any; returns whether there may be more. */
static int pass_on(int output, struct log *log, struct job *job) {
    static char chunk[CHUNK];
    ssize_t size = read(output, chunk, sizeof chunk);
    if (size > 0) print(log, job, chunk, (size_t)size);
    return size > 0 ? 1 : size == 0 || errno != EAGAIN ? -1 : 0;
}

/* The end */

static void kill_group(struct job *job) {
    if (!*job->kill) return;
    int file = open(job->kill, O_WRONLY | O_CLOEXEC);
    if (file < 0) return;
    if (write(file, "1", 1) < 0) errno = 0;
    close(file);
}

/* The processes below this one, each once. Their orphans become its children, so all of the job is always below it. */

struct tree { pid_t *pids; size_t count, room; };

static int add_pid(struct tree *tree, pid_t pid) {
    for (size_t i = 0; i < tree->count; i++) if (tree->pids[i] == pid) return 1;
    if (tree->count == tree->room) {
        size_t room = tree->room ? 2 * tree->room : 64;
        pid_t *more = realloc(tree->pids, room * sizeof *more);
        if (more == NULL) return 0;
        tree->pids = more;
        tree->room = room;
    }
    tree->pids[tree->count++] = pid;
    return 1;
}

/* A child is listed with the thread that forked it. */
static void add_children(struct tree *tree, pid_t parent) {
    char path[320];
    snprintf(path, sizeof path, "/proc/%d/task", (int)parent);
    DIR *threads = opendir(path);
    for (struct dirent *thread; threads && (thread = readdir(threads));) {
        if (thread->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "/proc/%d/task/%s/children", (int)parent, thread->d_name);
        FILE *file = fopen(path, "re");
        int pid;
        while (file && fscanf(file, "%d", &pid) == 1 && add_pid(tree, (pid_t)pid)) continue;
        if (file) fclose(file);
    }
    if (threads) closedir(threads);
}

static struct tree look_below(void) {
    struct tree tree = {0};
    add_children(&tree, getpid());
    for (size_t i = 0; i < tree.count; i++) add_children(&tree, tree.pids[i]);
    return tree;
}

/* A process may fork while the list is read, so the list is read until two readings agree, at most LOOKS times. */
static struct tree find_all(void) {
    struct tree tree = look_below();
    for (int left = LOOKS; left > 0; left--) {
        struct tree again = look_below();
        int agree = again.count == tree.count && !memcmp(again.pids, tree.pids, tree.count * sizeof *tree.pids);
        free(tree.pids);
        tree = again;
        if (agree) break;
    }
    return tree;
}

static void signal_all(int number) {
    struct tree tree = find_all();
    for (size_t i = 0; i < tree.count; i++) kill(tree.pids[i], number);
    free(tree.pids);
}

/* `pid` 0: the job's first process has been collected, and its number may be another process's. */
static void kill_all(struct job *job, pid_t pid) {
    if (pid > 0) kill(-pid, SIGKILL);
    kill_group(job);
    signal_all(SIGKILL);
}

/* Processes that the job left behind are looked for only if one exists: that takes longer than all the rest. */
static void collect(struct job *job) {
    for (pid_t pid; (pid = waitpid(-1, NULL, WNOHANG)) >= 0;) {
        if (pid > 0) continue;
        kill_all(job, 0);
        struct timespec moment = {0, 2000000};
        nanosleep(&moment, NULL);
    }
}

/* Once told to terminate, the job lasts until all of it has ended; otherwise all that is left ends with its first process. */
static int keep(struct job *job, pid_t pid, int signals, int output, int state) {
    struct log log = {.head = -1, .now = -1};
    pid_t spawner = getppid();
    siginfo_t end = {0};
    int told = 0, killed = 0, collected = 0;
    for (;;) {
        struct pollfd both[2] = {{signals, POLLIN, 0}, {output, POLLIN, 0}};
        if (poll(both, output >= 0 ? 2 : 1, -1) < 0) continue;
        if (output >= 0 && both[1].revents && pass_on(output, &log, job) < 0) {
            close(output);
            output = -1;
        }
        struct signalfd_siginfo heard;
        if (!both[0].revents || read(signals, &heard, sizeof heard) != (ssize_t)sizeof heard) continue;
        if (heard.ssi_signo == SIGTERM) {
            told = 1;
            signal_all(SIGTERM);
            signal_all(SIGCONT); /* a stopped process cannot answer */
        } else if (heard.ssi_signo == SIGUSR1) {
            killed = 1;
            kill_all(job, collected ? 0 : pid);
        } else if (heard.ssi_signo == SIGTSTP) signal_all(SIGSTOP);
        else if (heard.ssi_signo == SIGCONT) signal_all(SIGCONT);
        if (!collected && waitid(P_PID, (id_t)pid, &end, WEXITED | WNOHANG | WNOWAIT) == 0 && end.si_pid == pid) {
            if (!told || killed) break;
            waitpid(pid, NULL, 0);
            collected = 1;
        }
        if (collected && killed) break;
        siginfo_t other = {0};
        int found;
        while ((found = waitid(P_ALL, 0, &other, WEXITED | WNOHANG | WNOWAIT)) == 0 && other.si_pid > 0) {
            if (!collected && other.si_pid == pid) break;
            waitpid(other.si_pid, NULL, 0);
            other.si_pid = 0;
        }
        if (collected && found < 0) break; /* no child is left, so the job is over */
    }
    long long ended = now_us();
    if (!collected) kill(-pid, SIGKILL); /* its number is taken until it is collected, so this kills no other process */
    kill_group(job);
    collect(job);
    if (output >= 0) for (int left = 64; left && pass_on(output, &log, job) > 0; left--) continue;
    char text[64];
    int code = end.si_code == CLD_EXITED ? end.si_status : 128 + end.si_status;
    int size = snprintf(text, sizeof text, "ended %d %lld\n%s", code, ended, told ? "terminated\n" : "");
    if (write(state, text, (size_t)size) != size) return 1;
    if (getppid() != spawner) fdatasync(state); /* the executor is not waiting for it now */
    return 0;
}

static int keeper(char *text, size_t size, int orders) {
    struct job job = read_job(text, size);
    close(orders);
    setsid();
    signal(SIGCHLD, SIG_DFL);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    prctl(PR_SET_NAME, "headrace-keeper");
    sigset_t wanted;
    sigemptyset(&wanted);
    int numbers[] = {SIGCHLD, SIGTERM, SIGUSR1, SIGTSTP, SIGCONT, SIGINT, SIGHUP};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) sigaddset(&wanted, numbers[i]);
    sigprocmask(SIG_BLOCK, &wanted, NULL);
    int signals = signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK), output[2];
    int state = open(job.state, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    struct fault fault = {.stage = "state", .number = errno, .place = -1};
    pid_t pid = -1;
    if (state >= 0 && signals >= 0 && pipe2(output, O_CLOEXEC) == 0) {
        flock(state, LOCK_EX);
        strcpy(fault.stage, "fork");
        pid = start(&job, output[1], &fault);
    }
    if (pid < 0) {
        unlink(job.state);
        report_failure(job.id, fault.stage, fault.number, fault.place);
        return 0;
    }
    close(output[1]);
    fcntl(output[0], F_SETFL, O_NONBLOCK);
    long long at = now_us();
    char line[640];
    int length = snprintf(line, sizeof line, "started %d %d %lld\n", (int)getpid(), (int)pid, at);
    int written = write(state, line, (size_t)length) == length;
    close(lock_fd); /* from here on the next executor finds it */
    if (!written) {
        kill_all(&job, pid);
        collect(&job);
        unlink(job.state);
        report_failure(job.id, "state", ENOSPC, -1);
        return 0;
    }
    int own = (int)syscall(SYS_pidfd_open, getpid(), 0);
    length = snprintf(line, sizeof line, "%s started %d %lld", job.id, (int)pid, at);
    report(line, (size_t)length, own);
    if (own >= 0) close(own);
    close(reports);
    memset(title, 0, title_room);
    snprintf(title, title_room, "headrace-keeper %s", job.state);
    return keep(&job, pid, signals, output[0], state);
}

static int read_all(int file, char *data, size_t size) {
    while (size) {
        ssize_t part = read(file, data, size);
        if (part < 0 && errno == EINTR) continue;
        if (part <= 0) return 0;
        data += part;
        size -= (size_t)part;
    }
    return 1;
}

int main(int argc, char **argv) {
    if (argc != 5) return 2;
    int orders = atoi(argv[1]);
    reports = atoi(argv[2]);
    lock_fd = atoi(argv[3]);
    title = argv[0];
    title_room = (size_t)(argv[4] + strlen(argv[4]) - argv[0]);
    for (int i = 1; i <= 3; i++) fcntl(atoi(argv[i]), F_SETFD, FD_CLOEXEC);
    int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++) signal(ignored[i], SIG_IGN); /* it ends with the executor */
    struct sigaction forget = {.sa_handler = SIG_DFL, .sa_flags = SA_NOCLDWAIT};
    sigaction(SIGCHLD, &forget, NULL);
    uint32_t size;
    while (read_all(orders, (char *)&size, sizeof size)) {
        char *text = malloc(size);
        if (text == NULL || !read_all(orders, text, size)) return 1;
        pid_t pid = fork();
        if (pid == 0) _exit(keeper(text, size, orders));
        if (pid < 0 && memchr(text, 0, size)) report_failure(text, "fork", errno, -1);
        free(text);
    }
    return 0;
}
