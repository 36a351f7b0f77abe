/*
 * Comes before a program that runs under valgrind, which makes it some forty times as slow. Beside
 * other programs it is slower still, so the program waits for minutes where it says seconds.
 */
#include <gigae.h>
#include <pm.h>
#include <stdio.h>

#define PATIENT UINT64_C(300000000)

static inline int patient_open_with(gigae_options *options, gigae_endpoint **endpoint)
{
    int result = gigae_options_peer_timeout(options, PATIENT);
    return result < 0 ? result : gigae_open_with(options, endpoint);
}

static inline int patient_open(const char *interface, gigae_endpoint **endpoint)
{
    gigae_options *options;
    int result = gigae_options_new(interface, &options);
    if (result < 0) return result;
    result = patient_open_with(options, endpoint);
    gigae_options_free(options);
    return result;
}

/* A context has no such option. So none sends before all are open: each says so, and its input ends. */
static inline int patient_context(pmDevice *device, int number, pmContext **context)
{
    int result = pmOpenContext(device, number, context);
    if (result == PM_SUCCESS) puts("open"), fflush(stdout), getchar();
    return result;
}

#define gigae_open(interface, endpoint) patient_open(interface, endpoint)
#define gigae_open_with(options, endpoint) patient_open_with(options, endpoint)
#define gigae_drain(endpoint, time) gigae_drain(endpoint, (time) < PATIENT ? PATIENT : (time))
#define gigae_completion_timeout(endpoint, completion, time) \
    gigae_completion_timeout(endpoint, completion, (time) < PATIENT ? PATIENT : (time))
#define gigae_notice_timeout(endpoint, notice, time) \
    gigae_notice_timeout(endpoint, notice, (time) < PATIENT ? PATIENT : (time))
#define pmOpenContext(device, number, context) patient_context(device, number, context)
