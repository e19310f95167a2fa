//! The rules that a capture file must follow, each with its severity and its entry in the manual
//! (docs/formats/capture.md, "What can be wrong").

quipu_model::rules! {
    "capture files" {
        UNREAD "capture/unread-bytes" Error
            "All bytes of a file belong to a part of a thread."
            "The file was cut, or its bytes were changed. The events in them are lost." []
        MISSING "capture/missing-part" Error
            "The parts of a thread are numbered without a gap."
            "The events of a part that is missing are lost." []
        DAMAGED "capture/damaged-part" Error
            "A part of a thread holds as many events as it says, and they can be unpacked."
            "Events up to the damage are read; those after it are lost." []
    }
}
