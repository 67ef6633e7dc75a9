//! DebugService. Its requests carry no trace id, and no fault strikes it.

use std::sync::Arc;

use kvcm_proto::debug::{self, debug_service_server::DebugService};
use tonic::{Request, Response, Status};

use crate::{
    http::{CallContext, JsonRoutes},
    service::Services,
};

/// Faults on demand.
#[derive(Clone, Debug)]
pub(crate) struct DebugRpc(pub(crate) Arc<Services>);

impl DebugRpc {
    /// The JSON routes.
    pub(crate) fn routes(&self, routes: JsonRoutes) -> JsonRoutes {
        let [inject, remove, clear] = [(); 3].map(|()| self.0.clone());
        routes
            .call("InjectFault", move |_: CallContext, message| {
                std::future::ready(inject.inject_fault(&message))
            })
            .call("RemoveFault", move |_: CallContext, message| {
                std::future::ready(remove.remove_fault(&message))
            })
            .call("ClearFaults", move |_: CallContext, message| {
                std::future::ready(clear.clear_faults(&message))
            })
    }
}

#[tonic::async_trait]
impl DebugService for DebugRpc {
    async fn inject_fault(
        &self,
        request: Request<debug::InjectFaultRequest>,
    ) -> Result<Response<debug::CommonResponse>, Status> {
        Ok(Response::new(self.0.inject_fault(request.get_ref())))
    }

    async fn remove_fault(
        &self,
        request: Request<debug::RemoveFaultRequest>,
    ) -> Result<Response<debug::CommonResponse>, Status> {
        Ok(Response::new(self.0.remove_fault(request.get_ref())))
    }

    async fn clear_faults(
        &self,
        request: Request<debug::ClearFaultsRequest>,
    ) -> Result<Response<debug::CommonResponse>, Status> {
        Ok(Response::new(self.0.clear_faults(request.get_ref())))
    }
}
