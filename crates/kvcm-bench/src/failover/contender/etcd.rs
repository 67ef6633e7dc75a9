//! An election of etcd's `clientv3/concurrency`, over the JSON gateway: a lease that is kept alive
//! each third of its time, `Campaign`, and the revoking of the lease to resign.

use std::{pin::pin, time::Duration};

use anyhow::{Context, bail};
use base64::{Engine, prelude::BASE64_STANDARD};
use kvcm_clock::{BootClock, Clock};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{ContenderOptions, Lead, Ready, http::Http};

const ELECTION: &str = "failover";

pub(super) async fn campaign(
    options: &ContenderOptions,
    lead: &Lead,
    resign: &CancellationToken,
    ready: &mut Ready,
) -> anyhow::Result<()> {
    let mut http = Http::connect(options.backend).await?;
    let mut sent = BootClock.now();
    let asked = json!({ "TTL": options.lease().as_secs_f64().ceil() as i64 });
    let granted = http.post("/v3/lease/grant", &asked).await?;
    let lease = text(&granted["ID"])?;
    let mut ttl = seconds(&granted["TTL"]).context("no lease was granted")?;
    ready.tell(ttl)?;

    // Waits in the server, over a connection of its own.
    let elected = async {
        let mut http = Http::connect(options.backend).await?;
        let (name, value) = (base64(ELECTION), base64(&options.name));
        let body = json!({ "name": name, "lease": lease, "value": value });
        http.post("/v3/election/campaign", &body).await
    };
    let mut elected = pin!(elected);
    let mut is_leader = false;
    loop {
        let next = sent + ttl / 3;
        tokio::select! {
            won = &mut elected, if !is_leader => {
                is_leader = true;
                lead.begin(&token(&won?)?, sent + ttl);
            }
            () = tokio::time::sleep(next.since(BootClock.now())) => {
                sent = BootClock.now();
                let body = json!({ "ID": lease });
                let kept = http.post("/v3/lease/keepalive", &body).await?;
                let Some(left) = seconds(&kept["result"]["TTL"]) else {
                    bail!("the lease is gone");
                };
                ttl = left;
                lead.put_off(sent + ttl);
            }
            () = resign.cancelled() => {
                lead.end();
                http.post("/v3/lease/revoke", &json!({ "ID": lease })).await?;
                return Ok(());
            }
        }
    }
}

/// Writes that count only while the leader's key is there.
pub(super) struct Store(Http);

impl Store {
    pub(super) async fn connect(options: &ContenderOptions) -> anyhow::Result<Self> {
        Ok(Self(Http::connect(options.backend).await?))
    }

    pub(super) async fn write(&mut self, token: &str, number: u64) -> anyhow::Result<bool> {
        let (key, revision) = token.split_once(' ').context("not a leader's token")?;
        let (place, value) = (base64("data"), base64(&number.to_string()));
        let body = json!({
            "compare": [{
                "key": key, "target": "CREATE", "result": "EQUAL", "create_revision": revision,
            }],
            "success": [{ "request_put": { "key": place, "value": value } }],
        });
        let done = self.0.post("/v3/kv/txn", &body).await?;
        Ok(done["succeeded"] == true)
    }
}

/// What a write compares: the leader's key and the revision of its creation.
fn token(won: &Value) -> anyhow::Result<String> {
    let leader = &won["leader"];
    Ok(format!(
        "{} {}",
        text(&leader["key"])?,
        text(&leader["rev"])?
    ))
}

fn text(value: &Value) -> anyhow::Result<String> {
    let text = value
        .as_str()
        .with_context(|| format!("not a text: {value}"))?;
    Ok(text.to_owned())
}

/// Whole seconds, more than none. A lease that is gone has no TTL in the answer.
fn seconds(value: &Value) -> Option<Duration> {
    let seconds = value
        .as_str()?
        .parse()
        .ok()
        .filter(|seconds| *seconds > 0)?;
    Some(Duration::from_secs(seconds))
}

fn base64(text: &str) -> String {
    BASE64_STANDARD.encode(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_as_the_gateway_prints_them() {
        let kept = json!({ "result": { "ID": "7", "TTL": "5" } });
        assert_eq!(
            seconds(&kept["result"]["TTL"]),
            Some(Duration::from_secs(5))
        );
        for gone in [
            json!({ "ID": "7" }),
            json!({ "TTL": "0" }),
            json!({ "TTL": "-1" }),
        ] {
            assert_eq!(seconds(&gone["TTL"]), None, "{gone}");
        }
        let won = json!({ "leader": { "name": "ZQ==", "key": "a2V5", "rev": "12", "lease": "7" } });
        assert_eq!(token(&won).unwrap(), "a2V5 12");
        assert!(token(&json!({})).is_err());
    }
}
