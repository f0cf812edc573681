/* Describes a CPU's matrix tiles (AMX) to a program where the hypervisor shows them and hides leaf 29
   of CPUID, which says how large they are. For measuring what bfloat16 and int8 gain from tiles on such
   a machine; relmo leaves tiles alone there (src/relmo/kernels/tiles.py). Linux, x86-64, a CPU whose
   /proc/cpuinfo lists cpuid_fault.

       gcc -O2 -shared -fPIC -o describe_tiles.so benchmarks/describe_tiles.c
       LD_PRELOAD=$PWD/describe_tiles.so ONEDNN_MAX_CPU_ISA=AVX512_CORE_AMX relmo bench --model relmo-en-base

   CPUID is made to raise a signal; its handler answers leaves 29 and 30 and asks the CPU for all
   others. (pytest must leave the signal alone: -p no:faulthandler.) */

#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum { ARCH_SET_CPUID = 0x1012, TILE_LEAF = 0x1d, MULTIPLY_LEAF = 0x1e };

static struct sigaction before;

static void answer(int signal_number, siginfo_t *info, void *context) {
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    const unsigned char *instruction = (const unsigned char *)registers[REG_RIP];
    if (instruction[0] != 0x0f || instruction[1] != 0xa2) { /* not CPUID: a real fault */
        sigaction(SIGSEGV, &before, 0);
        return;
    }
    unsigned leaf = registers[REG_RAX], part = registers[REG_RCX], a = 0, b = 0, c = 0, d = 0;
    if (leaf == TILE_LEAF) { /* one palette: 8 tiles of 16 rows of 64 bytes, 8 KiB in all */
        if (part == 0) a = 1;
        if (part == 1) a = 1024u << 16 | 8192u, b = 8u << 16 | 64u, c = 16;
    } else if (leaf == MULTIPLY_LEAF) {
        if (part == 0) b = 64u << 8 | 16u;
    } else {
        syscall(SYS_arch_prctl, ARCH_SET_CPUID, 1);
        __asm__ volatile("cpuid" : "=a"(a), "=b"(b), "=c"(c), "=d"(d) : "a"(leaf), "c"(part));
        syscall(SYS_arch_prctl, ARCH_SET_CPUID, 0);
        if (leaf == 0 && a < MULTIPLY_LEAF) a = MULTIPLY_LEAF; /* the last leaf there is */
    }
    registers[REG_RAX] = a, registers[REG_RBX] = b, registers[REG_RCX] = c, registers[REG_RDX] = d;
    registers[REG_RIP] += 2;
}

__attribute__((constructor)) static void begin(void) {
    struct sigaction action = {0};
    action.sa_sigaction = answer;
    action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
    sigaction(SIGSEGV, &action, &before);
    if (syscall(SYS_arch_prctl, ARCH_SET_CPUID, 0)) perror("describe_tiles");
}
