//! What has to be done for endpoints beside the requests: probes when they are due, the return of
//! ejected ones, and word to the queues of how much each pool takes now.
//!
//! One task for the whole process. It sleeps until the next of these is due or until something
//! changes (an ejection, a probe's end, an operator, a reload), and works on what is in force then.

use std::sync::Arc;
use std::time::Duration;

use inferscope_shared::clock::MonoNs;

use super::pool::Pool;
use super::probe;
use crate::server::Current;

/// Looked at this often even if nothing is due.
const AT_LEAST: Duration = Duration::from_secs(60);

/// Keeps the endpoints of whatever configuration is in force; ends when it is dropped.
pub async fn keep(current: Current) {
    loop {
        let services = current.get();
        let now = MonoNs::now();
        let mut next = now.plus(AT_LEAST);
        for pool in services.router.pools() {
            for index in pool.to_probe(now) {
                tokio::spawn(probed(current.clone(), Arc::clone(pool), index));
            }
            if let Some(change) = pool.show(now) {
                next = next.min(change);
            }
            let queue = &services.admission.queue;
            queue.set_capacity(&pool.name, pool.capacity(now));
        }
        let changed = Arc::clone(services.router.changed());
        // Services that are no longer in force must not live on in a task that sleeps.
        drop(services);
        let left = Duration::from_nanos(next.since(MonoNs::now()));
        let _ = tokio::time::timeout(left, changed.notified()).await;
    }
}

/// Probes an endpoint, and tells the pool that is in force when the answer is there.
async fn probed(current: Current, pool: Arc<Pool>, index: usize) {
    let Some(health) = &pool.choosing.health else {
        return;
    };
    let endpoint = &pool.endpoints[index];
    let credential = pool.credential.as_ref();
    let outcome = probe::ask(endpoint, &health.path, credential, health.timeout).await;
    let services = current.get();
    if let Some(pool) = services.router.pool(&pool.name)
        && let Some(index) = pool.endpoints.iter().position(|e| e.is_same(endpoint))
    {
        pool.probed(index, outcome, MonoNs::now());
    }
}
