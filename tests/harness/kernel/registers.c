/* Whether a kernel keeps the extended registers of each thread apart.
 *
 * Two threads of one process load different values into all extended registers that the processor
 * has and that the process may use without asking (CPUID leaf 0xD, XGETBV, ARCH_GET_XCOMP_PERM),
 * switch to each other through two pipes, and compare what they find. Then a signal comes whose
 * handler loads other values. Between loading and storing there are only system calls, which change
 * no extended register.
 *
 * Prints one JSON object: the features (bits of XCR0) that were compared, those that this program
 * does not know, the bytes of registers up to the last feature, the switches and signals that were
 * made, those after which a register differed, and the features that need a permission, with the
 * error that asking for the widest of them gives and the signal that ends a process which uses AMX's
 * tiles without the permission.
 */

#define _GNU_SOURCE
#include <cpuid.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS 1000
#define LEAF 0xd
#define HEADER 512
#define FIRST_FEATURE 576
#define ARCH_GET_XCOMP_PERM 0x1022
#define ARCH_REQ_XCOMP_PERM 0x1023

#define SSE 1
#define PROTECTION_KEYS 9
#define TILE_CONFIGURATION 17
#define TILES 18
/* SSE, AVX, AVX-512, protection keys, tile configuration, APX: all of whose bits we know */
#define KNOWN (1UL << SSE | 1UL << 2 | 7UL << 5 | 1UL << PROTECTION_KEYS | 1UL << TILE_CONFIGURATION | 1UL << 19)

static unsigned long features, size;

struct thread {
	unsigned char *loaded, *stored;
	int in, out;
	unsigned long rounds, broken;
};

static unsigned long xcr0(void)
{
	unsigned int low, high;

	__asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
	return (unsigned long)high << 32 | low;
}

static void place(int feature, unsigned int *offset, unsigned int *bytes)
{
	unsigned int c, d;

	if (feature == SSE) { /* XMM0 to XMM15, in the part that FXSAVE has, too */
		*offset = 160;
		*bytes = 256;
	} else {
		__cpuid_count(LEAF, feature, *bytes, *offset, c, d);
	}
}

static unsigned char *area(void)
{
	unsigned char *memory = aligned_alloc(64, (size + 4095) & ~4095UL);

	memset(memory, 0, size);
	return memory;
}

static void fill(unsigned char *memory, unsigned char salt)
{
	unsigned int offset, bytes, i;
	unsigned long mxcsr = 0x1f80;

	memcpy(memory + 24, &mxcsr, 4);
	memcpy(memory + HEADER, &features, 8);
	for (int feature = 1; feature < 63; feature++) {
		if (!(features >> feature & 1))
			continue;
		place(feature, &offset, &bytes);
		if (feature == PROTECTION_KEYS) { /* key 0 guards all of our memory: it stays open */
			memory[offset + 1] = salt & 0xfc;
		} else if (feature == TILE_CONFIGURATION) { /* eight tiles, of 4 to 64 bytes by 1 to 16 rows */
			memory[offset] = 1;
			for (i = 0; i < 8; i++) {
				memory[offset + 16 + 2 * i] = 4 * (1 + (salt + i) % 16);
				memory[offset + 48 + i] = 1 + (salt + i) % 16;
			}
		} else {
			for (i = 0; i < bytes; i++)
				memory[offset + i] = salt + 31 * feature + 7 * i + i / 256;
		}
	}
}

static int differs(const unsigned char *a, const unsigned char *b)
{
	unsigned int offset, bytes;

	for (int feature = 1; feature < 63; feature++) {
		if (!(features >> feature & 1))
			continue;
		place(feature, &offset, &bytes);
		if (memcmp(a + offset, b + offset, bytes))
			return 1;
	}
	return 0;
}

/* Load all registers, write a byte, wait for one, store all registers. */
static void exchange(struct thread *t)
{
	static char byte;
	unsigned int low = features, high = features >> 32;

	__asm__ volatile("xrstor64 (%[loaded])\n\t"
			 "mov %[write], %%eax\n\t"
			 "mov %[out], %%edi\n\t"
			 "mov %[byte], %%rsi\n\t"
			 "mov $1, %%edx\n\t"
			 "syscall\n\t"
			 "mov %[read], %%eax\n\t"
			 "mov %[in], %%edi\n\t"
			 "mov $1, %%edx\n\t"
			 "syscall\n\t"
			 "mov %[low], %%eax\n\t"
			 "mov %[high], %%edx\n\t"
			 "xsave64 (%[stored])"
			 :
			 : [loaded] "r"(t->loaded), [stored] "r"(t->stored), [in] "m"(t->in),
			   [out] "m"(t->out), [byte] "r"(&byte), [write] "i"(SYS_write),
			   [read] "i"(SYS_read), [low] "m"(low), [high] "m"(high), "a"(low), "d"(high)
			 : "rdi", "rsi", "rcx", "r11", "memory");
}

static void *run(void *argument)
{
	struct thread *t = argument;

	for (t->rounds = 0; t->rounds < ROUNDS; t->rounds++) {
		exchange(t);
		t->broken += differs(t->loaded, t->stored);
	}
	return NULL;
}

static unsigned char *of_handler;
static unsigned long handled;

static void handle(int number)
{
	unsigned int low = features, high = features >> 32;

	(void)number;
	handled++;
	__asm__ volatile("xrstor64 (%0)" : : "r"(of_handler), "a"(low), "d"(high) : "memory");
}

/* Load all registers, send this thread a signal, store all registers. */
static int is_broken_by_signal(struct thread *t)
{
	unsigned int low = features, high = features >> 32;
	int process = getpid(), thread = syscall(SYS_gettid);

	__asm__ volatile("xrstor64 (%[loaded])\n\t"
			 "mov %[tgkill], %%eax\n\t"
			 "mov %[process], %%edi\n\t"
			 "mov %[thread], %%esi\n\t"
			 "mov %[signal], %%edx\n\t"
			 "syscall\n\t"
			 "mov %[low], %%eax\n\t"
			 "mov %[high], %%edx\n\t"
			 "xsave64 (%[stored])"
			 :
			 : [loaded] "r"(t->loaded), [stored] "r"(t->stored), [tgkill] "i"(SYS_tgkill),
			   [process] "m"(process), [thread] "m"(thread), [signal] "i"(SIGUSR1),
			   [low] "m"(low), [high] "m"(high), "a"(low), "d"(high)
			 : "rdi", "rsi", "rcx", "r11", "memory");
	return differs(t->loaded, t->stored);
}

/* The signal that ends a process which configures the tiles and clears one; 0 if none does. */
static int use_tiles(unsigned char *configured)
{
	int status = 0;
	pid_t child = fork();

	if (child == 0) {
		__asm__ volatile(".byte 0xc4, 0xe2, 0x78, 0x49, 0x00" : : "a"(configured) : "memory"); /* ldtilecfg (%rax) */
		__asm__ volatile(".byte 0xc4, 0xe2, 0x7b, 0x49, 0xc0"); /* tilezero %tmm0 */
		_exit(0);
	}
	waitpid(child, &status, 0);
	return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

int main(void)
{
	static unsigned char stack[1 << 18];
	stack_t own_stack = {.ss_sp = stack, .ss_size = sizeof(stack)};
	struct sigaction action = {.sa_handler = handle, .sa_flags = SA_ONSTACK};
	struct thread threads[2] = {0};
	unsigned int a, b, c, d, broken_by_signals = 0;
	unsigned long present, permitted, denied;
	pthread_t ids[2];
	int there[2], back[2], error = 0, tiles = 0;

	__cpuid(1, a, b, c, d);
	if (!(c >> 27 & 1)) {
		puts("{\"features\": 0}");
		return 0;
	}
	present = xcr0();
	if (syscall(SYS_arch_prctl, ARCH_GET_XCOMP_PERM, &permitted) != 0)
		permitted = present & ~(1UL << TILES);
	denied = present & ~permitted;
	if (denied && syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, 63 - __builtin_clzl(denied)) != 0)
		error = errno;
	if (error && denied >> TILES & 1) {
		unsigned char configured[64] = {1, [16] = 64, [48] = 16};

		tiles = use_tiles(configured);
	}
	features = present & permitted & KNOWN;
	size = FIRST_FEATURE;
	for (int feature = 2; feature < 63; feature++) {
		if (!(features >> feature & 1))
			continue;
		place(feature, &b, &a);
		size = b + a > size ? b + a : size;
	}

	if (pipe(there) || pipe(back))
		return 1;
	for (int i = 0; i < 2; i++) {
		threads[i].loaded = area();
		threads[i].stored = area();
		fill(threads[i].loaded, 100 * i + 11);
		threads[i].in = i ? there[0] : back[0];
		threads[i].out = i ? back[1] : there[1];
		pthread_create(&ids[i], NULL, run, &threads[i]);
	}
	for (int i = 0; i < 2; i++)
		pthread_join(ids[i], NULL);

	of_handler = area();
	fill(of_handler, 222);
	sigaltstack(&own_stack, NULL);
	sigaction(SIGUSR1, &action, NULL);
	for (int i = 0; i < ROUNDS; i++)
		broken_by_signals += is_broken_by_signal(&threads[i % 2]);

	printf("{\"features\": %lu, \"unknown\": %lu, \"bytes\": %lu, \"switches\": %lu, \"broken_by_switches\": %lu, "
	       "\"signals\": %lu, \"broken_by_signals\": %u, \"denied\": %lu, \"errno\": %d, \"tiles\": %d}\n",
	       features, present & permitted & ~KNOWN & ~31UL, size, threads[0].rounds + threads[1].rounds,
	       threads[0].broken + threads[1].broken, handled, broken_by_signals, denied, error,
	       tiles);
	return 0;
}
