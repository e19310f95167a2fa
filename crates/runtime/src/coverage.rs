//! Functions that coverage instrumentation calls besides loads and stores: they must exist, and say nothing about memory.

nothing! {
    __sanitizer_cov_trace_pc
    __sanitizer_cov_trace_pc_guard
    __sanitizer_cov_trace_pc_guard_init
    __sanitizer_cov_trace_pc_indir
    __sanitizer_cov_8bit_counters_init
    __sanitizer_cov_bool_flag_init
    __sanitizer_cov_pcs_init
    __sanitizer_cov_trace_cmp
    __sanitizer_cov_trace_cmp1
    __sanitizer_cov_trace_cmp2
    __sanitizer_cov_trace_cmp4
    __sanitizer_cov_trace_cmp8
    __sanitizer_cov_trace_const_cmp1
    __sanitizer_cov_trace_const_cmp2
    __sanitizer_cov_trace_const_cmp4
    __sanitizer_cov_trace_const_cmp8
    __sanitizer_cov_trace_switch
    __sanitizer_cov_trace_div4
    __sanitizer_cov_trace_div8
    __sanitizer_cov_trace_gep
    __sanitizer_cov_dump
    __sanitizer_cov_reset
}
