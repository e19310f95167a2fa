@ The same for 32-bit Arm: instructions / reads / writes.
        .syntax unified
        .arm
        .globl  _start
        .text
_start:
        movw    r1, #:lower16:counter   @ 1
        movt    r1, #:upper16:counter   @ 1
        movw    r2, #1000               @ 1
again:  ldr     r0, [r1]                @ 1000 / 1000
        add     r0, r0, #1              @ 1000
        str     r0, [r1]                @ 1000 / 0 / 1000
        subs    r2, r2, #1              @ 1000
        bne     again                   @ 1000, of which 999 are taken
        bl      leaf                    @ 1
        mov     r7, #248                @ 1
        mov     r0, #0                  @ 1
        svc     #0                      @ 1
leaf:   bx      lr                      @ 1
        .data
        .balign 4
counter: .word  0
