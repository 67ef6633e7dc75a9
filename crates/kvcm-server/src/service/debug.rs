//! DebugService: faults on demand. Any node answers, for itself.

use std::time::Duration;

use kvcm_proto::debug;

use super::Services;
use crate::{
    faults::{Fault, When},
    reply::{CallError, Code, Header, Reply as _},
    rpc::{AdminRpc, MetaRpc},
};

/// Longest delay that can be injected.
const LATENCY_MAX_MS: i32 = 600_000;

impl Services {
    /// Makes a call fail, or take long.
    pub(crate) fn inject_fault(
        &self,
        request: &debug::InjectFaultRequest,
    ) -> debug::CommonResponse {
        answer(read(request).map(|(rpc, fault)| {
            tracing::warn!(rpc, ?fault, "fault injected");
            self.faults.inject(rpc, fault);
        }))
    }

    /// Takes the fault of a call away.
    pub(crate) fn remove_fault(
        &self,
        request: &debug::RemoveFaultRequest,
    ) -> debug::CommonResponse {
        answer(name(&request.api_name).map(|rpc| self.faults.remove(rpc)))
    }

    /// Takes all faults away.
    pub(crate) fn clear_faults(&self, _: &debug::ClearFaultsRequest) -> debug::CommonResponse {
        self.faults.clear();
        answer(Ok(()))
    }
}

fn answer(result: Result<(), CallError>) -> debug::CommonResponse {
    debug::CommonResponse::only(match result {
        Ok(()) => Header::ok(""),
        Err(error) => Header::refused("", error),
    })
}

fn read(request: &debug::InjectFaultRequest) -> Result<(&'static str, Fault), CallError> {
    let rpc = name(&request.api_name)?;
    let invalid = |field: &str, text: String| {
        let message = format!("missing or invalid fields: {{{field}}}: {text}");
        Err(CallError::new(Code::InvalidArgument, message))
    };
    let Ok(_) = debug::FaultType::try_from(request.fault_type) else {
        let text = format!("{} is no type of fault", request.fault_type);
        return invalid("fault_type", text);
    };
    let when = match debug::FaultTriggerStrategy::try_from(request.fault_trigger_strategy) {
        Ok(debug::FaultTriggerStrategy::Always) => When::Always,
        // Left out it is the next call.
        Ok(debug::FaultTriggerStrategy::Once) => match u32::try_from(request.trigger_at_call) {
            Ok(call) => When::After(call.saturating_sub(1)),
            Err(_) => {
                let text = format!("{} is negative", request.trigger_at_call);
                return invalid("trigger_at_call", text);
            }
        },
        Err(_) => {
            let text = format!("{} is no strategy", request.fault_trigger_strategy);
            return invalid("fault_trigger_strategy", text);
        }
    };
    let code = match request.error_code {
        None => Some(Code::Internal),
        Some(number) => match Code::from_number(number) {
            Some(code) => Some(code).filter(|code| *code != Code::Ok),
            None => {
                let text = format!("no call here answers with {number}");
                return invalid("error_code", text);
            }
        },
    };
    let latency_ms = request.latency_ms.unwrap_or_default();
    if !(0..=LATENCY_MAX_MS).contains(&latency_ms) {
        let text = format!("{latency_ms} is not from 0 to {LATENCY_MAX_MS}");
        return invalid("latency_ms", text);
    }
    let latency = Duration::from_millis(u64::from(latency_ms.unsigned_abs()));
    Ok((
        rpc,
        Fault {
            code,
            latency,
            when,
        },
    ))
}

/// The call of this name; a small first letter, as in the paths of HTTP, is fine too.
fn name(text: &str) -> Result<&'static str, CallError> {
    let mut names = MetaRpc::NAMES.iter().chain(AdminRpc::NAMES);
    let is_it = |name: &&&'static str| {
        let (first, rest) = name.split_at(1);
        let same_first = text
            .get(..1)
            .is_some_and(|own| own.eq_ignore_ascii_case(first));
        same_first && text.get(1..) == Some(rest)
    };
    names.find(is_it).copied().ok_or_else(|| {
        let message = format!(
            "missing or invalid fields: {{api_name}}: `{text}` is no call of MetaService or \
             AdminService"
        );
        CallError::new(Code::InvalidArgument, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(change: impl FnOnce(&mut debug::InjectFaultRequest)) -> debug::InjectFaultRequest {
        let mut request = debug::InjectFaultRequest {
            api_name: "StartWriteCache".to_owned(),
            ..Default::default()
        };
        change(&mut request);
        request
    }

    #[test]
    fn a_fault_is_an_internal_error_of_every_call_unless_it_says_otherwise() {
        let read = |change: fn(&mut debug::InjectFaultRequest)| read(&request(change)).unwrap();
        let (rpc, fault) = read(|_| {});
        assert_eq!(rpc, "StartWriteCache");
        assert_eq!(
            (fault.code, fault.when),
            (Some(Code::Internal), When::Always)
        );
        assert_eq!(read(|r| r.api_name = "startWriteCache".to_owned()).0, rpc);
        let once = |call: i32| {
            super::read(&request(|r| {
                r.fault_trigger_strategy = 1;
                r.trigger_at_call = call;
            }))
            .unwrap()
            .1
            .when
        };
        assert_eq!([once(0), once(1), once(3)], [0, 0, 2].map(When::After));
        let (_, fault) = read(|r| (r.error_code, r.latency_ms) = (Some(1), Some(20)));
        assert_eq!((fault.code, fault.latency.as_millis()), (None, 20));
        let (_, fault) = read(|r| r.error_code = Some(9));
        assert_eq!(fault.code, Some(Code::NotLeader));
    }

    #[test]
    fn what_is_no_fault_is_refused_by_field() {
        type Change = fn(&mut debug::InjectFaultRequest);
        let cases: [(Change, &str); 8] = [
            (|r| r.api_name.clear(), "{api_name}"),
            (|r| r.api_name = "STARTWRITECACHE".to_owned(), "{api_name}"),
            (|r| r.api_name = "é".to_owned(), "{api_name}"),
            (|r| r.fault_type = 1, "{fault_type}"),
            (|r| r.fault_trigger_strategy = 2, "{fault_trigger_strategy}"),
            (
                |r| (r.fault_trigger_strategy, r.trigger_at_call) = (1, -1),
                "{trigger_at_call}",
            ),
            (|r| r.error_code = Some(4), "{error_code}"),
            (|r| r.latency_ms = Some(600_001), "{latency_ms}"),
        ];
        for (change, field) in cases {
            let error = read(&request(change)).unwrap_err();
            assert_eq!(error.code, Code::InvalidArgument);
            assert!(error.message.contains(field), "{error:?}");
        }
    }
}
