# A freestanding program for x86-64 whose instructions and accesses can be counted by hand: the numbers stand at the lines,
# instructions / reads / writes.
        .globl _start
        .text
_start:
        mov     $1000, %ecx             # 1
again:  mov     counter(%rip), %rax     # 1000 / 1000
        add     $1, %rax                # 1000
        mov     %rax, counter(%rip)     # 1000 / 0 / 1000
        dec     %ecx                    # 1000
        jnz     again                   # 1000, of which 999 are taken
        mov     $5, %ecx                # 1
        lea     source(%rip), %rsi      # 1
        lea     target(%rip), %rdi      # 1
        rep movsb                       # 1 and 4 iterations / 5 / 5
        xor     %ecx, %ecx              # 1
        rep movsb                       # 1
        movups  vector(%rip), %xmm0     # 1 / 1 of 16 bytes
        lock incl counter(%rip)         # 1 / 1 / 1
        prefetcht0 vector(%rip)         # 1, and nobody says where
        call    leaf                    # 1 / 0 / 1
        mov     $231, %eax              # 1
        xor     %edi, %edi              # 1
        syscall                         # 1
leaf:   ret                             # 1 / 1
        .data
        .balign 16
counter: .quad  0
        .balign 16
vector: .fill   16, 1, 7
source: .ascii  "hello"
target: .fill   8, 1, 0
