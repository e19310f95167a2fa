/* A plugin that is told of every block and access, as that of Quipu is, and does nothing. No package has a header. */
#include <stddef.h>
#include <stdint.h>

int qemu_plugin_version = 1;

void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t, void (*)(uint64_t, void *));
size_t qemu_plugin_tb_n_insns(void *);
void *qemu_plugin_tb_get_insn(void *, size_t);
void qemu_plugin_register_vcpu_tb_exec_cb(void *, void (*)(unsigned, void *), int, void *);
void qemu_plugin_register_vcpu_mem_cb(void *, void (*)(unsigned, uint32_t, uint64_t, void *), int, int, void *);

static void on_block(unsigned vcpu, void *user) { (void)vcpu, (void)user; }

static void on_access(unsigned vcpu, uint32_t info, uint64_t addr, void *user) {
    (void)vcpu, (void)info, (void)addr, (void)user;
}

static void on_translate(uint64_t id, void *block) {
    (void)id;
    qemu_plugin_register_vcpu_tb_exec_cb(block, on_block, 0, NULL);
    for (size_t i = 0; i < qemu_plugin_tb_n_insns(block); i++)
        qemu_plugin_register_vcpu_mem_cb(qemu_plugin_tb_get_insn(block, i), on_access, 0, 3, NULL);
}

int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv) {
    (void)info, (void)argc, (void)argv;
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate);
    return 0;
}
