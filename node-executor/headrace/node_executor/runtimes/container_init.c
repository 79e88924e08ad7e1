/* The first process of a job's container: starts the job, and stays until the container may end.
 *
 *     container_init COMMAND ARGUMENTS...
 *
 * A container ends with its first process, and the kernel then kills everything else in it. So the first process is this one: SIGTERM goes
 * to every process of the container (which is continued as well, because a stopped process cannot answer), and after it the container ends
 * with the last of them; without SIGTERM it ends with the job's own first process, as a plain process does under keeper.c. Orphans
 * are collected. Exit code: the job's as a shell reports it; 127 if the command does not exist, 126 if it cannot be run.
 *
 * It is linked statically, because an image may have any C library, or none. If it is not process 1 it manages a process group
 * instead of a container.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static void become(char **command) {
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execvp(command[0], command);
    int number = errno;
    if (number == ENOENT) dprintf(2, "[headrace] command not found: %s\n", command[0]);
    else dprintf(2, "[headrace] %s cannot be run: %s\n", command[0], strerror(number));
    _exit(number == ENOENT ? 127 : 126);
}

/* How many processes of the container the kernel killed for want of memory, as far as that is visible inside. */
static long killed_for_memory(void) {
    const char *files[] = {"/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"};
    for (int i = 0; i < 2; i++) {
        FILE *file = fopen(files[i], "r");
        char name[32];
        long count, found = 0;
        while (file && fscanf(file, "%31s %ld", name, &count) == 2)
            if (!strcmp(name, "oom_kill")) found = count;
        if (file) fclose(file);
        if (found) return found;
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc < 2) return 127;
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    pid_t job = fork(), everybody = getpid() == 1 ? -1 : 0;
    if (job < 0) {
        dprintf(2, "[headrace] the job cannot be started: %s\n", strerror(errno));
        return 126;
    }
    if (job == 0) become(argv + 1);
    for (int told = 0, code = -1;;) {
        if (sigwaitinfo(&all, NULL) == SIGTERM && !told) {
            told = 1;
            kill(everybody, SIGTERM);
            kill(everybody, SIGCONT);
        }
        int status;
        pid_t ended;
        while ((ended = waitpid(-1, &status, WNOHANG)) > 0)
            if (ended == job) code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        if (code >= 0 && (!told || ended < 0)) { /* told: only when no child is left */
            if (code && killed_for_memory()) dprintf(2, "[headrace] out of memory\n");
            return code;
        }
    }
}
