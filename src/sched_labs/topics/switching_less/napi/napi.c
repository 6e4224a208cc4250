/* napi.c - who receives packets, and who pays for it?  UDP between two network namespaces, in several ways (--way).
 *
 *     call        the softirq that receives (NET_RX) runs at the end of the sender's own call
 *     interrupt   the sender's CPU interrupts the receiver's, and the softirq runs there, on top of whoever has that
 *                 CPU.  Receive packet steering (rps_cpus) does here what a network card does with its interrupt.
 *     thread      a thread of the kernel, napi/DEVICE-N, polls the device, on the receiver's CPU
 *     fifo        the same thread, as SCHED_FIFO, above the receiver
 *     none        no packets: what the hog gets done without them
 *
 * Three threads of ours:
 *
 *     sender      sends --burst packets every --period-us, and has a CPU of its own
 *     receiver    SCHED_FIFO, sleeps until packets come; it runs on --cpu
 *     hog         where asked for (--way WAY+hog), on the receiver's CPU: it computes and never touches a packet
 *
 * The namespaces and the pair of devices between them (veth) have no name outside, and end with this process, however
 * that ends.
 *
 *     ready tid=SENDER tid=RECEIVER tid=HOG
 *     block way=... hog=0|1 sent=... received=... elapsed_ns=... sender_ns=... receiver_ns=... thread_ns=...
 *         thread_wait_ns=... hog_ns=... hog_wait_ns=... hog_steps=... p50_ns=... p99_ns=...
 *         WHO_ns            CPU time; WHO_wait_ns: it could run and had no CPU
 *         p50_ns, p99_ns    of all packets sent, from before the call that sends one until the receiver has it; left
 *                           out where so many are lost that there is none
 *     missing what=... errno=...             this machine has no such thing, and nothing is measured
 *     missing way=... errno=...              nor in this way
 */
#include "lab.h"
#include "work.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <getopt.h>
#include <linux/ethtool.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <linux/veth.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>

enum way { NONE, CALL, INTERRUPT, THREAD, FIFO, WAYS };
static const char *const names[WAYS] = {"none", "call", "interrupt", "thread", "fifo"};
enum { MOST_BLOCKS = 16, MOST_PACKETS = 1 << 20, FETCH = 64 };
enum { RECEIVER_PRIORITY = 10, THREAD_PRIORITY = 20 };

static struct {
    struct { enum way way; bool hog; } block[MOST_BLOCKS];
    long blocks, burst, period_us, block_ms, cpu;
} plan = {.burst = 20, .period_us = 1000, .block_ms = 60};

struct packet {
    int64_t sent_ns;
    long block;
};

static char device[IFNAMSIZ];
static int out, in;
static bool steered;

/* What this machine has not, or not for this user, is no failure. */
__attribute__((noreturn)) static void be_missing(const char *what)
{
    printf("missing what=%s errno=%d\n", what, errno);
    exit(lab_done());
}

/* ---- two namespaces, and a pair of devices between them ------------------------------------------------------ */

static void add(struct nlmsghdr *message, int type, const void *data, size_t bytes)
{
    struct rtattr *one = (void *)((char *)message + NLMSG_ALIGN(message->nlmsg_len));
    *one = (struct rtattr){(unsigned short)RTA_LENGTH(bytes), (unsigned short)type};
    if (bytes)
        memcpy(RTA_DATA(one), data, bytes);
    message->nlmsg_len = NLMSG_ALIGN(message->nlmsg_len) + RTA_ALIGN(one->rta_len);
}

static struct rtattr *open_nest(struct nlmsghdr *message, int type)
{
    struct rtattr *nest = (void *)((char *)message + NLMSG_ALIGN(message->nlmsg_len));
    add(message, type, NULL, 0);
    return nest;
}

static void close_nest(struct nlmsghdr *message, struct rtattr *nest)
{
    nest->rta_len = (unsigned short)((char *)message + NLMSG_ALIGN(message->nlmsg_len) - (char *)nest);
}

/* `ip link add DEVICE type veth peer name DEVICE netns OTHER`, with one queue each. */
static void create_devices(int other_namespace)
{
    struct {
        struct nlmsghdr head;
        struct ifinfomsg link;
        char attributes[512];
    } wanted = {.head = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct ifinfomsg)),
                         .nlmsg_type = RTM_NEWLINK,
                         .nlmsg_flags = NLM_F_REQUEST | NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK}};
    struct nlmsghdr *head = &wanted.head;
    uint32_t one = 1;
    add(head, IFLA_IFNAME, device, strlen(device) + 1);
    add(head, IFLA_NUM_RX_QUEUES, &one, sizeof one);
    add(head, IFLA_NUM_TX_QUEUES, &one, sizeof one);
    struct rtattr *info = open_nest(head, IFLA_LINKINFO);
    add(head, IFLA_INFO_KIND, "veth", 4);
    struct rtattr *data = open_nest(head, IFLA_INFO_DATA), *peer = open_nest(head, VETH_INFO_PEER);
    head->nlmsg_len += sizeof(struct ifinfomsg);
    add(head, IFLA_IFNAME, device, strlen(device) + 1);
    add(head, IFLA_NUM_RX_QUEUES, &one, sizeof one);
    add(head, IFLA_NUM_TX_QUEUES, &one, sizeof one);
    add(head, IFLA_NET_NS_FD, &other_namespace, sizeof other_namespace);
    close_nest(head, peer);
    close_nest(head, data);
    close_nest(head, info);
    struct {
        struct nlmsghdr head;
        struct nlmsgerr error;
        char rest[512];
    } answer;
    int kernel = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (kernel < 0 || send(kernel, &wanted, head->nlmsg_len, 0) < 0 || recv(kernel, &answer, sizeof answer, 0) < 0)
        be_missing("veth");
    close(kernel);
    errno = -answer.error.error;
    if (errno)
        be_missing("veth");
}

/* Gives the device in this socket's namespace its address, and brings it up. */
static void bring_up(int any_socket, const char *address)
{
    struct ifreq request = {0};
    memcpy(request.ifr_name, device, sizeof device);
    struct sockaddr_in *value = (void *)&request.ifr_addr;
    value->sin_family = AF_INET;
    inet_pton(AF_INET, address, &value->sin_addr);
    if (ioctl(any_socket, SIOCSIFADDR, &request))
        be_missing("device");
    request.ifr_flags = IFF_UP;
    if (ioctl(any_socket, SIOCSIFFLAGS, &request))
        be_missing("device");
}

/* Tells the sender's side the receiver's hardware address: asked for, it could be a second late. */
static void introduce(const char *address)
{
    struct ifreq receivers = {0};
    struct arpreq entry = {.arp_flags = ATF_COM | ATF_PERM};
    struct sockaddr_in *of = (void *)&entry.arp_pa;
    memcpy(receivers.ifr_name, device, sizeof device);
    memcpy(entry.arp_dev, device, sizeof device);
    of->sin_family = AF_INET;
    inet_pton(AF_INET, address, &of->sin_addr);
    if (ioctl(in, SIOCGIFHWADDR, &receivers))
        be_missing("device");
    entry.arp_ha = receivers.ifr_hwaddr;
    if (ioctl(out, SIOCSARP, &entry))
        be_missing("device");
}

static void set_feature(int any_socket, uint32_t command, uint32_t on)
{
    struct ethtool_value value = {command, on};
    struct ifreq request = {.ifr_data = (void *)&value};
    memcpy(request.ifr_name, device, sizeof device);
    if (ioctl(any_socket, SIOCETHTOOL, &request))
        be_missing("napi");
}

/* The sender's socket is opened in one namespace and the receiver's in another, and each stays in its own. */
static void open_network(void)
{
    if (unshare(CLONE_NEWNS | CLONE_NEWNET) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL))
        be_missing("namespace");
    out = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int senders = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    if (senders < 0 || unshare(CLONE_NEWNET))
        be_missing("namespace");
    in = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (mount("sysfs", "/sys", "sysfs", 0, NULL)) /* the devices of this namespace, in our own view of the files */
        be_missing("sysfs");
    snprintf(device, sizeof device, "sl%d", getpid());
    create_devices(senders);
    close(senders);
    bring_up(in, "10.0.0.2");
    bring_up(out, "10.0.0.1");
    introduce("10.0.0.2");
    /* veth has a NAPI to poll where its packets may be merged (GRO), and asks for it where they come unmerged. */
    set_feature(in, ETHTOOL_SGRO, 1);
    set_feature(out, ETHTOOL_STSO, 0);
    struct sockaddr_in here = {.sin_family = AF_INET};
    socklen_t length = sizeof here;
    int room = 4 << 20;
    inet_pton(AF_INET, "10.0.0.2", &here.sin_addr);
    setsockopt(in, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room);
    if (bind(in, (struct sockaddr *)&here, sizeof here) || getsockname(in, (struct sockaddr *)&here, &length) ||
        connect(out, (struct sockaddr *)&here, sizeof here))
        be_missing("device");
}

/* ---- who receives -------------------------------------------------------------------------------------------- */

static bool write_setting(const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "/sys/class/net/%s/%s", device, name);
    int file = open(path, O_WRONLY | O_CLOEXEC);
    bool written = file >= 0 && write(file, text, strlen(text)) >= 0;
    int error = errno;
    close(file);
    errno = error;
    return written;
}

/* The kernel's thread for our device: napi/DEVICE-N, as far as its name is shown. */
static pid_t find_thread(void)
{
    char wanted[32], path[64], comm[64];
    snprintf(wanted, sizeof wanted, "napi/%s-", device);
    pid_t found = 0;
    DIR *folder = opendir("/proc");
    for (struct dirent *entry; !found && folder && (entry = readdir(folder));) {
        snprintf(path, sizeof path, "/proc/%.20s/comm", entry->d_name);
        FILE *file = fopen(path, "re");
        if (file && fgets(comm, sizeof comm, file) && !strncmp(comm, wanted, strlen(wanted)))
            found = atoi(entry->d_name);
        if (file)
            fclose(file);
    }
    if (folder)
        closedir(folder);
    return found;
}

/* A mask of one CPU as the kernel reads it: groups of 32 bits, from the highest. */
static void mask_of(long cpu, char *text)
{
    text += sprintf(text, "%x", 1U << cpu % 32);
    for (long i = 0; i < cpu / 32; i++)
        text += sprintf(text, ",00000000");
}

/* Has packets received in this way; thread: the kernel's, 0 where none does it.  False, with errno, where it cannot. */
static bool choose(enum way way, pid_t *thread)
{
    char mask[512] = "0";
    bool threaded = way == THREAD || way == FIFO;
    *thread = 0;
    if (way == INTERRUPT)
        mask_of(plan.cpu, mask);
    if ((way == INTERRUPT || steered) && !write_setting("queues/rx-0/rps_cpus", mask))
        return false;
    steered = way == INTERRUPT;
    if (!write_setting("threaded", threaded ? "1" : "0") && threaded)
        return false;
    if (!threaded)
        return true;
    *thread = find_thread();
    errno = *thread ? 0 : ESRCH;
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(plan.cpu, &cpus);
    struct sched_param priority = {.sched_priority = way == FIFO ? THREAD_PRIORITY : 0};
    return *thread && !sched_setaffinity(*thread, sizeof cpus, &cpus) &&
           !sched_setscheduler(*thread, way == FIFO ? SCHED_FIFO : SCHED_OTHER, &priority);
}

/* ---- our threads --------------------------------------------------------------------------------------------- */

static _Atomic pid_t receiver_tid, hog_tid;
static clockid_t receiver_clock, hog_clock;
static atomic_long current_block = -1, received, hog_steps;
static int64_t delays[MOST_PACKETS];
static atomic_bool hog_on;
static sem_t hog_go, receiver_go;
enum { STEPS = 1000 };

static void *be_receiver(void *unused)
{
    static struct packet packets[FETCH];
    static struct iovec parts[FETCH];
    static struct mmsghdr fetched[FETCH];
    for (int i = 0; i < FETCH; i++) {
        parts[i] = (struct iovec){&packets[i], sizeof packets[i]};
        fetched[i].msg_hdr = (struct msghdr){.msg_iov = &parts[i], .msg_iovlen = 1};
    }
    pthread_getcpuclockid(pthread_self(), &receiver_clock);
    receiver_tid = lab_tid();
    sem_wait(&receiver_go);
    for (;;) {
        int count = recvmmsg(in, fetched, FETCH, MSG_WAITFORONE, NULL);
        int64_t now = lab_now_ns();
        for (int i = 0; i < count; i++)
            if (packets[i].block == current_block && received < MOST_PACKETS)
                delays[received++] = now - packets[i].sent_ns;
    }
    return unused;
}

static void *be_hog(void *unused)
{
    pthread_getcpuclockid(pthread_self(), &hog_clock);
    hog_tid = lab_tid();
    for (;;) {
        sem_wait(&hog_go);
        while (atomic_load_explicit(&hog_on, memory_order_relaxed)) {
            work(STEPS);
            atomic_fetch_add_explicit(&hog_steps, 1, memory_order_relaxed);
        }
    }
    return unused;
}

/* ---- a block ------------------------------------------------------------------------------------------------- */

/* For how long a thread has waited for a CPU, and with `run` for how long it had one; 0 where it is not told. */
static int64_t waited_ns(pid_t tid, int64_t *run)
{
    char path[64];
    int64_t ran = 0, waited = 0;
    snprintf(path, sizeof path, "/proc/%d/schedstat", (int)tid);
    FILE *file = tid ? fopen(path, "re") : NULL;
    if (file) {
        if (fscanf(file, "%ld %ld", &ran, &waited) != 2)
            ran = waited = 0;
        fclose(file);
    }
    if (run)
        *run = ran;
    return waited;
}

struct look {
    int64_t now, sender, receiver, thread, thread_wait, hog, hog_wait, steps;
};

static struct look look(pid_t thread)
{
    struct look at = {.steps = hog_steps, .hog = lab_clock_ns(hog_clock), .hog_wait = waited_ns(hog_tid, NULL)};
    at.thread_wait = waited_ns(thread, &at.thread);
    at.receiver = lab_clock_ns(receiver_clock);
    at.sender = lab_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    at.now = lab_now_ns();
    return at;
}

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void measure(long index)
{
    enum way way = plan.block[index].way;
    bool hog = plan.block[index].hog;
    pid_t thread;
    if (!choose(way, &thread)) {
        printf("missing way=%s errno=%d\n", names[way], errno);
        return;
    }
    hog_on = hog;
    if (hog)
        sem_post(&hog_go);
    usleep(5000);
    received = 0;
    current_block = index;
    struct look before = look(thread);
    int64_t start = lab_now_ns(), until = start + plan.block_ms * 1000000;
    long sent = 0;
    for (int64_t due = start; due < until; due += plan.period_us * 1000) {
        lab_sleep_until(due);
        for (long i = 0; way != NONE && i < plan.burst; i++, sent++) {
            struct packet packet = {lab_now_ns(), index};
            if (send(out, &packet, sizeof packet, 0) < 0)
                lab_fail("send");
        }
    }
    lab_sleep_until(until); /* the last burst, too, is received in the block */
    struct look after = look(thread);
    for (int ms = 0; received < sent && ms < 50; ms++)
        usleep(1000); /* the last are still under way, or lost */
    hog_on = false;
    current_block = -1;
    long came = received;
    qsort(delays, (size_t)came, sizeof *delays, by_size);
    printf("block way=%s hog=%d sent=%ld received=%ld elapsed_ns=%ld", names[way], hog, sent, came,
           (long)(after.now - before.now));
    printf(" sender_ns=%ld receiver_ns=%ld thread_ns=%ld thread_wait_ns=%ld hog_ns=%ld hog_wait_ns=%ld hog_steps=%ld",
           (long)(after.sender - before.sender), (long)(after.receiver - before.receiver),
           (long)(after.thread - before.thread), (long)(after.thread_wait - before.thread_wait),
           (long)(after.hog - before.hog), (long)(after.hog_wait - before.hog_wait),
           (long)(after.steps - before.steps));
    if (sent && sent / 2 < came)
        printf(" p50_ns=%ld", (long)delays[sent / 2]);
    if (sent && sent * 99 / 100 < came)
        printf(" p99_ns=%ld", (long)delays[sent * 99 / 100]);
    putchar('\n');
}

static void plan_block(char *word)
{
    char *rest = strchr(word, '+');
    bool hog = rest && !strcmp(rest, "+hog");
    if (rest && hog)
        *rest = 0;
    for (enum way way = 0; way < WAYS; way++)
        if (!strcmp(word, names[way]) && plan.blocks < MOST_BLOCKS) {
            plan.block[plan.blocks].way = way;
            plan.block[plan.blocks++].hog = hog;
            return;
        }
    lab_fail("--way takes none, call, interrupt, thread or fifo, each with or without +hog, not '%s'", word);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"way", required_argument, 0, 'w'},      {"burst", required_argument, 0, 'n'},
        {"period-us", required_argument, 0, 'p'}, {"block-ms", required_argument, 0, 'b'},
        {"cpu", required_argument, 0, 'c'},      {"deadline", required_argument, 0, 'd'},
        {0, 0, 0, 0},
    };
    unsigned deadline_s = 60;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 'w': plan_block(optarg); break;
        case 'n': plan.burst = lab_number("--burst", optarg, 1, 200); break;
        case 'p': plan.period_us = lab_number("--period-us", optarg, 1000, 100000); break;
        case 'b': plan.block_ms = lab_number("--block-ms", optarg, 1, 5000); break;
        case 'c': plan.cpu = lab_number("--cpu", optarg, 0, 1023); break;
        case 'd': deadline_s = (unsigned)lab_number("--deadline", optarg, 1, 86400); break;
        default: return 2;
        }
    }
    lab_begin(deadline_s);
    prctl(PR_SET_TIMERSLACK, 1);
    sem_init(&hog_go, 0, 0);
    sem_init(&receiver_go, 0, 0);
    lab_thread(be_receiver, NULL);
    lab_thread(be_hog, NULL);
    while (!receiver_tid || !hog_tid)
        usleep(100);
    lab_barrier((pid_t[]){lab_tid(), receiver_tid, hog_tid}, 3);
    open_network();
    struct sched_param priority = {.sched_priority = RECEIVER_PRIORITY};
    if (sched_setscheduler(receiver_tid, SCHED_FIFO, &priority))
        be_missing("SCHED_FIFO");
    sem_post(&receiver_go);
    for (long i = 0; i < plan.blocks; i++)
        measure(i);
    return lab_done(); /* the receiver and the hog end with us */
}
