# The same for riscv64: instructions / reads / writes.
        .option norelax
        .globl  _start
        .text
_start:
        lla     a1, counter             # 2
        li      a2, 1000                # 1
again:  ld      a0, 0(a1)               # 1000 / 1000
        addi    a0, a0, 1               # 1000
        sd      a0, 0(a1)               # 1000 / 0 / 1000
        addi    a2, a2, -1              # 1000
        bnez    a2, again               # 1000, of which 999 are taken
        jal     ra, leaf                # 1
        li      a7, 94                  # 1
        li      a0, 0                   # 1
        ecall                           # 1
leaf:   ret                             # 1
        .data
        .balign 8
counter: .quad  0
