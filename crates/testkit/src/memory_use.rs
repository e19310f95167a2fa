//! The memory use of the process, if the system reports it.
//!
//! A counting allocator would be exact, but needs unsafe code; the kernel's own peak of resident memory is the number that
//! people see, and sufficient to distinguish megabytes from gigabytes. It counts the whole process, other tests included.

use std::fs;

/// Measures the peak of the process's resident memory. Linux only; elsewhere it returns `None`.
#[derive(Debug)]
pub struct PeakMemory {
    before: Option<u64>,
}

impl PeakMemory {
    /// Resets the peak and begins to measure.
    pub fn start() -> PeakMemory {
        // "5" resets the peak to the current resident memory. If that is not permitted, the old peak stays, and growth is
        // measured from there.
        let _ = fs::write("/proc/self/clear_refs", "5");
        PeakMemory { before: peak_bytes() }
    }

    /// Number of bytes by which the peak has grown since; `None` if the system does not report it.
    pub fn growth_bytes(&self) -> Option<u64> {
        Some(peak_bytes()?.saturating_sub(self.before?))
    }
}

fn peak_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_buffer_raises_the_peak() {
        let peak = PeakMemory::start();
        let buffer = vec![1u8; 64 << 20];
        assert!(buffer.iter().all(|byte| *byte == 1));
        if let Some(growth) = peak.growth_bytes() {
            assert!(growth >= 32 << 20, "{growth}");
        }
    }
}
