import type { OpenRegistry } from '../keys/open-registry.ts'
import type { Capability } from '../platform/capability.ts'
import { bindCalls } from '../platform/http/admin-call.ts'
import { SYNC_CALLS } from './sync-calls.ts'

/** Changes of keys on their way to the Redis of each region. */
export function createAnnouncing({ registry, regions }: OpenRegistry): Capability {
  return {
    calls: bindCalls(SYNC_CALLS, { registry, regions }),
    start: () => regions.start(),
    stop: () => regions.stop(),
  }
}
