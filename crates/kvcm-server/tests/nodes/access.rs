//! Who may call what, over gRPC and HTTP, on a leader and on a follower.

use std::net::SocketAddr;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use kvcm_proto::{
    admin::{CheckHealthRequest, admin_service_client::AdminServiceClient},
    meta::{GetClusterInfoRequest, meta_service_client::MetaServiceClient},
};
use kvcm_testkit::{NodeSpec, Ports, ServerProcess};
use tonic::{Code, Request};

use crate::{
    raw::ask,
    support::{channel, start_on, until},
};

const ADMIN: &str = "Bearer token-of-the-admin";

/// The code of a call over gRPC with an `authorization`, which may be empty.
async fn grpc(address: SocketAddr, is_admin: bool, authorization: &str) -> Code {
    let channel = channel(address).await;
    let status = match is_admin {
        true => {
            let request = authorized(CheckHealthRequest::default(), authorization);
            AdminServiceClient::new(channel)
                .check_health(request)
                .await
                .err()
        }
        false => {
            let request = authorized(GetClusterInfoRequest::default(), authorization);
            MetaServiceClient::new(channel)
                .get_cluster_info(request)
                .await
                .err()
        }
    };
    status.map_or(Code::Ok, |status| status.code())
}

fn authorized<T>(message: T, authorization: &str) -> Request<T> {
    let mut request = Request::new(message);
    if !authorization.is_empty() {
        let value = authorization.parse().unwrap();
        request.metadata_mut().insert("authorization", value);
    }
    request
}

async fn http(address: SocketAddr, method: &str, path: &str, authorization: &str) -> u16 {
    let header = match authorization {
        "" => String::new(),
        text => format!("authorization: {text}\r\n"),
    };
    ask(address, method, path, &header, "{}").await.status
}

fn spec(dir: &std::path::Path, name: &str) -> NodeSpec {
    NodeSpec::new(name, dir).unwrap().set(
        "kvcm.service.admin_auth_token",
        "token-of-the-admin,another-admin",
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_asked_for_unless_it_is_configured() {
    let dir = tempfile::tempdir().unwrap();
    let node = ServerProcess::spawn(&NodeSpec::new("open", dir.path()).unwrap())
        .await
        .unwrap();
    let ports = node.ports();
    for authorization in ["", "Bearer whatever", "nonsense"] {
        assert_eq!(grpc(ports.admin_rpc(), true, authorization).await, Code::Ok);
        assert_eq!(
            http(
                ports.admin_http(),
                "POST",
                "/api/checkHealth",
                authorization
            )
            .await,
            200
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_token_for_administrators_only_the_admin_calls_are_guarded() {
    let dir = tempfile::tempdir().unwrap();
    let node = ServerProcess::spawn(&spec(dir.path(), "admin"))
        .await
        .unwrap();
    let (rpc, data, admin) = (
        node.ports().rpc(),
        node.ports().http(),
        node.ports().admin_http(),
    );
    for (authorization, status, code) in [
        ("", 401, Code::Unauthenticated),
        ("nonsense", 401, Code::Unauthenticated),
        ("Bearer wrong", 401, Code::Unauthenticated),
        (ADMIN, 200, Code::Ok),
        ("bearer another-admin", 200, Code::Ok),
    ] {
        let path = "/api/checkHealth";
        assert_eq!(
            http(admin, "POST", path, authorization).await,
            status,
            "{authorization}"
        );
        // Both services share the port.
        assert_eq!(
            grpc(rpc, true, authorization).await,
            code,
            "{authorization}"
        );
        assert_eq!(
            grpc(rpc, false, authorization).await,
            Code::Ok,
            "{authorization}"
        );
        assert_eq!(
            http(data, "POST", "/api/getClusterInfo", authorization).await,
            200
        );
        assert_eq!(http(admin, "GET", "/livez", authorization).await, 200);
    }
    let answer = ask(admin, "POST", "/api/checkHealth", "", "{}").await;
    assert_eq!(answer.body, r#"{"error":"unauthorized"}"#);
    assert!(
        answer
            .head
            .contains("www-authenticate: bearer realm=\"kvcm\"\r\n"),
        "{}",
        answer.head
    );
    let log = std::fs::read_to_string(dir.path().join("admin.log")).unwrap();
    assert!(
        !log.contains("token-of") && !log.contains("another-admin"),
        "{log}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_token_for_engines_the_data_calls_are_guarded_too() {
    let dir = tempfile::tempdir().unwrap();
    let spec = spec(dir.path(), "both").set("kvcm.service.meta_auth_token", "token-of-the-engines");
    let node = ServerProcess::spawn(&spec).await.unwrap();
    let (rpc, data, admin) = (
        node.ports().rpc(),
        node.ports().http(),
        node.ports().admin_http(),
    );
    for (authorization, (data_status, data_code), (admin_status, admin_code)) in [
        (
            "",
            (401, Code::Unauthenticated),
            (401, Code::Unauthenticated),
        ),
        (
            "Bearer token-of-the-engines",
            (200, Code::Ok),
            (403, Code::PermissionDenied),
        ),
        (
            "Bearer token-of-the-admin",
            (200, Code::Ok),
            (200, Code::Ok),
        ),
    ] {
        assert_eq!(
            http(data, "POST", "/api/getClusterInfo", authorization).await,
            data_status
        );
        assert_eq!(
            grpc(rpc, false, authorization).await,
            data_code,
            "{authorization}"
        );
        assert_eq!(
            http(admin, "POST", "/api/checkHealth", authorization).await,
            admin_status
        );
        assert_eq!(
            grpc(rpc, true, authorization).await,
            admin_code,
            "{authorization}"
        );
    }
}

fn basic(pair: &str) -> String {
    format!("Basic {}", STANDARD.encode(pair))
}

async fn as_admin(ports: &Ports, rpc: &str, body: &str) -> String {
    let header = format!("authorization: {ADMIN}\r\n");
    let path = format!("/api/{rpc}");
    ask(ports.admin_http(), "POST", &path, &header, body)
        .await
        .body
}

#[tokio::test(flavor = "multi_thread")]
async fn accounts_have_roles_on_the_leader_and_only_learn_who_it_is_elsewhere() {
    let dir = tempfile::tempdir().unwrap();
    let lock = format!("file://{}", dir.path().join("lock").display());
    let settings = [
        ("kvcm.service.admin_auth_token", "token-of-the-admin"),
        ("kvcm.service.enable_meta_auth", "true"),
    ];
    let cluster = start_on(2, 5000, &lock, dir.path(), &settings).await;
    let all = cluster.ports();
    let leads = async |index: usize| {
        let answer = http(all[index].admin_http(), "GET", "/leaderz", "").await;
        answer == 200
    };
    let leader = until("one leads", async || {
        for index in [0, 1] {
            if leads(index).await {
                return Some(index);
            }
        }
        None
    })
    .await;
    let (leader, follower) = (&all[leader], &all[1 - leader]);
    for (name, role) in [("ann", "ROLE_USER"), ("root", "ROLE_ADMIN")] {
        let body =
            format!(r#"{{"user_name":"{name}","password":"pass of {name}","role":"{role}"}}"#);
        let answer = as_admin(leader, "addAccount", &body).await;
        assert!(answer.contains(r#""code":"OK""#), "{answer}");
    }

    // Twice each: verified, and remembered.
    for _ in 0..2 {
        for (pair, data, admin) in [
            ("ann:pass of ann", 200, 403),
            ("root:pass of root", 200, 200),
            ("ann:pass of root", 401, 401),
            ("nobody:", 401, 401),
        ] {
            let shown = basic(pair);
            assert_eq!(
                http(leader.http(), "POST", "/api/getClusterInfo", &shown).await,
                data,
                "{pair}"
            );
            assert_eq!(
                http(leader.admin_http(), "POST", "/api/checkHealth", &shown).await,
                admin,
                "{pair}"
            );
        }
    }
    let root = basic("root:pass of root");
    assert_eq!(grpc(leader.rpc(), true, &root).await, Code::Ok);

    let header = format!("authorization: {}\r\n", basic("ann:anything"));
    let body = r#"{"instance_id":"i"}"#;
    let answer = ask(
        follower.http(),
        "POST",
        "/api/getInstanceInfo",
        &header,
        body,
    )
    .await;
    assert_eq!(answer.status, 200);
    assert!(answer.body.contains("SERVER_NOT_LEADER"), "{}", answer.body);
    assert_eq!(
        http(follower.admin_http(), "POST", "/api/checkHealth", &root).await,
        503
    );
    assert_eq!(grpc(follower.rpc(), true, &root).await, Code::Unavailable);
    assert_eq!(grpc(follower.rpc(), true, ADMIN).await, Code::Ok);

    let answer = as_admin(leader, "deleteAccount", r#"{"user_name":"ann"}"#).await;
    assert!(answer.contains(r#""code":"OK""#), "{answer}");
    let gone = basic("ann:pass of ann");
    assert_eq!(
        http(leader.http(), "POST", "/api/getClusterInfo", &gone).await,
        401
    );
    for log in ["node-1.log", "node-2.log"] {
        let log = std::fs::read_to_string(dir.path().join(log)).unwrap();
        assert!(
            !log.contains("pass of") && !log.contains("token-of"),
            "{log}"
        );
    }
}
