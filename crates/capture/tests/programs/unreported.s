# Accesses that the emulator does not report, before branches to a register. The numbers are instructions.
        .globl _start
        .text
_start:
        mov     $1000, %ebx             # 1
again:  lea     first(%rip), %rax       # 1000
        jmp     hint                    # 1000
hint:   prefetcht0 line(%rip)           # 1000, and nobody says where
        jmp     *%rax                   # 1000
first:  lea     second(%rip), %rax      # 1000
        jmp     flush                   # 1000
flush:  clflush line(%rip)              # 1000, and nobody says where
        mov     %rbx, %rcx              # 1000
        jmp     *%rax                   # 1000
second: dec     %ebx                    # 1000
        jnz     again                   # 1000
        mov     $231, %eax              # 1
        xor     %edi, %edi              # 1
        syscall                         # 1
        .data
        .balign 64
line:   .space  64
