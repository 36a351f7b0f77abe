/*
 * Runs a program on a host: enter HOST PROGRAM ARGUMENT...
 *
 * A host is a network namespace and a name. An MPI tells hosts apart by both. A job that enters a host only for
 * single ranks has all ranks on one host. A host with its own broker has it at the usual place.
 *
 * It takes the place of a daemon that logs users in: set-user-id of root, it ends as the user that called it. Compiled
 * with PREFIX, of the namespaces' names, and PLACE, the directory of the hosts' files; only processes of one job see it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

static void must(int result, const char *what) {
    if (result < 0) {
        fprintf(stderr, "enter: %s: %s\n", what, strerror(errno));
        exit(125);
    }
}

int main(int argc, char **argv) {
    const char *allowed = "abcdefghijklmnopqrstuvwxyz0123456789";
    if (argc < 3 || !*argv[1] || argv[1][strspn(argv[1], allowed)]) {
        fprintf(stderr, "usage: enter HOST PROGRAM ARGUMENT...\n");
        return 125;
    }
    const char *host = argv[1];
    char path[4096];
    snprintf(path, sizeof path, "/run/netns/%s-%s", PREFIX, host);
    int net = open(path, O_RDONLY | O_CLOEXEC);
    must(net, path);
    must(setns(net, CLONE_NEWNET), path);
    must(unshare(CLONE_NEWNS | CLONE_NEWUTS), "namespaces of its own");
    must(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), "mounts of its own");
    must(sethostname(host, strlen(host)), "a name of its own");
    snprintf(path, sizeof path, "%s/brokers/%s", PLACE, host);
    if (access(path, F_OK) == 0)
        must(mount(path, "/run/gigae", NULL, MS_BIND, NULL), path);
    /* Groups first: afterwards they cannot be changed. */
    must(setresgid(getgid(), getgid(), getgid()), "the caller's group");
    must(setresuid(getuid(), getuid(), getuid()), "the caller's user");
    execvp(argv[2], argv + 2);
    must(-1, argv[2]);
}
