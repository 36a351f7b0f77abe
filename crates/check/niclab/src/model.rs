//! The network cards that QEMU has, and what their drivers want.

/// A card of QEMU's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Model {
    /// How it is asked for: QEMU's name of it, mostly.
    pub name: &'static str,
    /// What it is.
    pub about: &'static str,
    /// QEMU's device, with the options that it needs.
    pub device: &'static str,
    /// Kernel modules, those that it finds by itself left out.
    pub modules: &'static [&'static str],
    /// Longest MTU to try in bytes; 1500 where it has no jumbo frames.
    pub mtu: u32,
    /// Frames that it holds while the driver does not run.
    pub held: usize,
    /// What is wrong with QEMU's, if that makes the conformance suite fail over every link.
    pub defect: Option<&'static str>,
}

/// Receive descriptors that most drivers give a card.
const RING: usize = 256;

const fn model(
    name: &'static str,
    about: &'static str,
    modules: &'static [&'static str],
    mtu: u32,
) -> Model {
    Model { name, about, device: name, modules, mtu, held: RING, defect: None }
}

/// One that accepts a frame's two pieces without a list of them (QEMU's hw/net/eepro100.c,
/// `tx_command`, and `e100_configure` of Linux's e100, which uses it from the 82558 on).
const fn i8255x(name: &'static str, about: &'static str) -> Model {
    let defect = "for each frame QEMU's card reads two descriptors, also where the driver says that there is one, and \
                  appends what the second one happens to say: each time round the ring some frames are too long or lost, \
                  over AF_PACKET and TCP too";
    Model { defect: Some(defect), ..model(name, about, &["e100"], 1500) }
}

/// All of them. usb-net is left out: it does not work.
pub const MODELS: &[Model] = &[
    model("e1000", "Intel PRO/1000 (82540EM), the papers' card", &["e1000"], 9000),
    model("e1000-82544gc", "Intel PRO/1000 (82544GC)", &["e1000"], 9000),
    model("e1000-82545em", "Intel PRO/1000 (82545EM)", &["e1000"], 9000),
    model("e1000e", "Intel 82574L", &["e1000e"], 9000),
    model("igb", "Intel 82576", &["igb"], 9000),
    i8255x("i82550", "Intel PRO/100 (82550), the papers' card"),
    i8255x("i82551", "Intel PRO/100 (82551)"),
    model("i82557a", "Intel PRO/100 (82557A)", &["e100"], 1500),
    model("i82557b", "Intel PRO/100 (82557B)", &["e100"], 1500),
    model("i82557c", "Intel PRO/100 (82557C)", &["e100"], 1500),
    i8255x("i82558a", "Intel PRO/100 (82558A)"),
    i8255x("i82558b", "Intel PRO/100 (82558B)"),
    i8255x("i82559a", "Intel PRO/100 (82559A)"),
    i8255x("i82559b", "Intel PRO/100 (82559B)"),
    i8255x("i82559c", "Intel PRO/100 (82559C)"),
    i8255x("i82559er", "Intel PRO/100 (82559ER)"),
    Model { held: 64, ..model("rtl8139", "RealTek 8139C+", &["8139cp"], 4096) },
    Model { held: 128, ..model("tulip", "DEC 21143", &["tulip"], 1500) },
    Model { held: 32, ..model("pcnet", "AMD PCnet", &["pcnet32"], 1500) },
    // Memory of 13 KB for frames.
    Model { held: 16, ..model("ne2k_pci", "NE2000 (RTL8029)", &["ne2k-pci"], 1500) },
    // QEMU's hands over each buffer of a frame in several as a frame with an error, TCP's too.
    model("vmxnet3", "VMware VMXNET3", &["vmxnet3"], 3000),
    Model {
        device: "virtio-net-pci,ioeventfd=off,tx=timer,x-txtimer=1000",
        ..model("virtio-net-pci", "virtio", VIRTIO, 9000)
    },
    Model {
        device: "virtio-net-pci,ioeventfd=off,tx=timer,x-txtimer=1000,iommu_platform=on,disable-legacy=on",
        ..model("virtio-net-iommu", "virtio behind an IOMMU, for zero-copy", VIRTIO, 9000)
    },
];

// By default, virtio's card sends in a thread of QEMU that does not follow the guest's clock. Two
// settings change that: a timer of that clock (in nanoseconds) starts the sending, and the driver
// reports at once what there is to send.

/// Its bus and itself.
const VIRTIO: &[&str] = &["virtio_pci", "virtio_net"];

/// The model of this name.
pub fn find(name: &str) -> Option<Model> {
    MODELS.iter().find(|model| model.name == name).copied()
}

/// The two cards of a guest, joined by a link. The first one's end measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cards(pub [Model; 2]);

impl Cards {
    /// Two of this model.
    pub fn alike(model: Model) -> Self {
        Self([model, model])
    }

    /// Those of this name: of one model, or of two with a plus between them.
    pub fn find(name: &str) -> Option<Self> {
        match name.split_once('+') {
            Some((first, second)) => Some(Self([find(first)?, find(second)?])),
            None => find(name).map(Self::alike),
        }
    }

    /// The models, each once.
    pub fn models(&self) -> &[Model] {
        let [first, second] = &self.0;
        if first == second { &self.0[..1] } else { &self.0 }
    }

    /// Their name: `e1000`, `e1000+igb`.
    pub fn name(&self) -> String {
        self.models().iter().map(|model| model.name).collect::<Vec<_>>().join("+")
    }

    /// What they are.
    pub fn about(&self) -> String {
        self.models().iter().map(|model| model.about).collect::<Vec<_>>().join(" to ")
    }

    /// Longest MTU in bytes that both have.
    pub fn mtu(&self) -> u32 {
        self.0[0].mtu.min(self.0[1].mtu)
    }

    /// Frames that each holds while its driver does not run.
    pub fn held(&self) -> usize {
        self.0[0].held.min(self.0[1].held)
    }

    /// What makes the conformance suite fail over every link.
    pub fn defect(&self) -> Option<&'static str> {
        self.0[0].defect.or(self.0[1].defect)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_model_is_found_by_its_name_and_once() {
        for model in MODELS {
            assert_eq!(find(model.name), Some(*model));
            assert!(model.mtu >= 1500 && !model.modules.is_empty() && model.held.is_power_of_two());
        }
        assert_eq!(find("ne2000"), None);
    }

    #[test]
    fn two_different_cards_have_what_both_have() {
        let both = Cards::find("i82551+e1000").unwrap();
        assert_eq!(
            (both.name(), both.mtu(), both.models().len()),
            ("i82551+e1000".into(), 1500, 2)
        );
        assert!(both.defect().is_some() && both.about().contains(" to "));
        assert_eq!(Cards::find("ne2k_pci+igb").unwrap().held(), 16);
        let alike = Cards::find("igb").unwrap();
        assert_eq!((alike.name(), alike.models().len()), ("igb".into(), 1));
        assert_eq!((Cards::find("igb+"), Cards::find("igb+none")), (None, None));
    }
}
