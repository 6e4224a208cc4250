/* stackswitch.h - go over to another stack without the kernel: all that a coroutine needs.
 *
 * A function call must preserve a handful of registers (the callee-saved ones of the platform's ABI).  Keep these
 * on this stack, note where the stack is, take the other stack, and take from there what was kept: from here on we
 * are somebody else.  The floating-point control words are left alone, because nothing here changes them.
 *
 *     stack_switch(&mine, other)      leave `mine`, go on where `other` was left
 *     stack_prepare(top, enter)       what to give as `other` to a fresh stack that shall begin with enter()
 */
#ifndef STACKSWITCH_H
#define STACKSWITCH_H

#include <stdint.h>

void stack_switch(void **mine, void *other);

#if defined __x86_64__
__asm__(".text\n"
        ".p2align 4\n"
        ".type stack_switch, @function\n"
        "stack_switch:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n" /* *mine = where my stack is now */
        "    movq %rsi, %rsp\n"   /* from here on we are somebody else */
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    popq %rcx\n"         /* the return address; a `ret` would be predicted to return to the old caller */
        "    jmp *%rcx\n"
        ".size stack_switch, . - stack_switch\n");

static inline void *stack_prepare(void *top, void (*enter)(void))
{
    /* A function begins with its stack 8 bytes off a multiple of 16, where its caller's address would be. */
    uintptr_t *words = (uintptr_t *)((uintptr_t)top & ~(uintptr_t)15) - 8;
    for (int i = 0; i < 8; i++)
        words[i] = 0;
    words[6] = (uintptr_t)enter;
    return words;
}
#elif defined __aarch64__
__asm__(".text\n"
        ".p2align 4\n"
        ".type stack_switch, %function\n"
        "stack_switch:\n"
        "    sub sp, sp, #160\n"
        "    stp x19, x20, [sp, #0]\n"
        "    stp x21, x22, [sp, #16]\n"
        "    stp x23, x24, [sp, #32]\n"
        "    stp x25, x26, [sp, #48]\n"
        "    stp x27, x28, [sp, #64]\n"
        "    stp x29, x30, [sp, #80]\n" /* frame pointer and return address */
        "    stp d8, d9, [sp, #96]\n"
        "    stp d10, d11, [sp, #112]\n"
        "    stp d12, d13, [sp, #128]\n"
        "    stp d14, d15, [sp, #144]\n"
        "    mov x9, sp\n"
        "    str x9, [x0]\n" /* *mine = where my stack is now */
        "    mov sp, x1\n"   /* from here on we are somebody else */
        "    ldp x19, x20, [sp, #0]\n"
        "    ldp x21, x22, [sp, #16]\n"
        "    ldp x23, x24, [sp, #32]\n"
        "    ldp x25, x26, [sp, #48]\n"
        "    ldp x27, x28, [sp, #64]\n"
        "    ldp x29, x9, [sp, #80]\n"
        "    ldp d8, d9, [sp, #96]\n"
        "    ldp d10, d11, [sp, #112]\n"
        "    ldp d12, d13, [sp, #128]\n"
        "    ldp d14, d15, [sp, #144]\n"
        "    add sp, sp, #160\n"
        "    br x9\n"
        ".size stack_switch, . - stack_switch\n");

static inline void *stack_prepare(void *top, void (*enter)(void))
{
    uintptr_t *words = (uintptr_t *)((uintptr_t)top & ~(uintptr_t)15) - 20;
    for (int i = 0; i < 20; i++)
        words[i] = 0;
    words[11] = (uintptr_t)enter;
    return words;
}
#else
#error "stackswitch.h knows x86-64 and aarch64"
#endif

#endif
