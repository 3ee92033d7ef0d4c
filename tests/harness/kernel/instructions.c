/* What a process sees of the processor's clock and random numbers, as JSON. */
#include <cpuid.h>
#include <stdio.h>
#include <time.h>
#include <x86intrin.h>

static unsigned long long clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

int main(void)
{
	unsigned long long before = clock_ns(), first = __rdtsc(), second, after;
	unsigned int processor, a, b, c, d, features, extended = 0;

	second = __rdtscp(&processor);
	after = clock_ns();
	__cpuid(1, a, b, features, d);
	if (__get_cpuid_count(7, 0, &a, &b, &c, &d))
		extended = b;
	printf("{\"times\": [%llu, %llu, %llu, %llu], \"processor\": %u, \"rdrand\": %u, \"rdseed\": %u}\n",
	       before, first, second, after, processor, features >> 30 & 1, extended >> 18 & 1);
	return 0;
}
