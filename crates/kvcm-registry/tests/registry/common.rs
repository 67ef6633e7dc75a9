//! What the registry's tests share.

use std::time::Duration;

use kvcm_fence::{Claim, Epoch, Incarnation};
use kvcm_journal::{Journal, MemoryJournal, Writer};
use kvcm_registry::{
    LocationSpecGroup, LocationSpecInfo, ModelDeployment, Recovery, Registration, Registry,
    StartupConfig,
};

pub(crate) async fn claim(journal: &MemoryJournal, epoch: u64) -> Box<dyn Writer> {
    let claim = Claim {
        cluster: "c".parse().unwrap(),
        epoch: Epoch::new(epoch).unwrap(),
        incarnation: Incarnation::from_bits(1),
    };
    journal.claim(claim, Duration::from_secs(5)).await.unwrap()
}

pub(crate) async fn open(journal: &MemoryJournal, epoch: u64) -> (Registry, Recovery) {
    Registry::open(claim(journal, epoch).await).await.unwrap()
}

/// A journal and a registry of epoch 1 with the built-in configuration.
pub(crate) async fn initialised() -> (MemoryJournal, Registry) {
    let journal = MemoryJournal::new("registry");
    let (registry, _) = open(&journal, 1).await;
    let config = StartupConfig::default();
    registry.apply_startup_config(&config).await.unwrap();
    (journal, registry)
}

pub(crate) fn registration(id: &str) -> Registration {
    let spec = |name: &str| LocationSpecInfo {
        name: name.to_owned(),
        size: 1024,
    };
    let group = |name: &str, specs: &[&str]| LocationSpecGroup {
        name: name.to_owned(),
        spec_names: specs.iter().map(|spec| (*spec).to_owned()).collect(),
    };
    Registration {
        group: "default".to_owned(),
        id: id.to_owned(),
        block_size: 128,
        location_spec_infos: vec![spec("tp0"), spec("tp1")],
        model_deployment: Some(ModelDeployment {
            model_name: "m".to_owned(),
            dtype: "fp8".to_owned(),
            ..ModelDeployment::default()
        }),
        location_spec_groups: vec![group("b", &["tp1", "tp0"]), group("a", &["tp0"])],
        default_query_type: 0,
    }
}
