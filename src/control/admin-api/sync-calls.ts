import type { Clock } from '../../domain/clock.ts'
import { KEPT_AFTER_EXPIRY_MS } from '../../domain/wire.ts'
import { type ControlLogger, causeOf } from '../../observability/control-logger.ts'
import { ApiError } from '../http/api-error.ts'
import type { AdminCall } from '../http/calls.ts'
import type { Announcer } from '../registry/announcing/announcer.ts'
import type { KeyRepository, StoredKey } from '../registry/database/key-repository.ts'
import { type SyncBody, syncBody } from './admin-schemas.ts'

const DEFAULT_PAGE_SIZE = 1000
const MAX_ATTEMPTS = 5

export interface SyncParts {
  readonly repository: KeyRepository
  readonly announcer: Announcer
  readonly clock: Clock
  readonly logger: ControlLogger
}

/** Rewrites the records in Redis a page at a time; the caller requests each page. */
export function syncCalls(parts: SyncParts): AdminCall[] {
  return [
    {
      method: 'POST',
      url: '/sync',
      operation: 'sync',
      permission: 'keys:write',
      workspaces: 'all',
      schema: { body: syncBody },
      // The route's schema has validated the body.
      handle: request => syncPage(parts, (request.body as SyncBody) ?? {}),
    },
  ]
}

/** Every key that Redis should hold, oldest first, in any state. Keys issued meanwhile are announced anyway. */
async function syncPage(parts: SyncParts, { limit, cursor }: NonNullable<SyncBody>) {
  const { repository, announcer, clock } = parts
  if (announcer.state() !== 'ready') throw unavailable()
  const expiresAfterMs = clock.wallMs() - KEPT_AFTER_EXPIRY_MS
  // Counted once: the cursor carries the total.
  const [counted = null, afterId = null] = cursor?.split('.') ?? []
  const total = counted === null ? await repository.countForSync(expiresAfterMs) : Number(counted)
  const page = await repository.listForSync({ expiresAfterMs, limit: limit ?? DEFAULT_PAGE_SIZE, afterId })
  await putPage(parts, page.keys)
  const synced = { synced: page.keys.length, total }
  return page.nextAfterId === null ? synced : { ...synced, cursor: `${total}.${page.nextAfterId}` }
}

/** A busy Redis answers some of so many commands too late: those are repeated before the caller sees an error. */
async function putPage({ announcer, logger }: SyncParts, keys: readonly StoredKey[]): Promise<void> {
  let left = keys
  for (let attempt = 1; left.length > 0; attempt++) {
    const results = await announcer.putAll(left)
    left = left.filter((_, index) => results[index]?.status === 'rejected')
    const failed = results.find(result => result.status === 'rejected')
    if (failed !== undefined && (attempt === MAX_ATTEMPTS || announcer.state() !== 'ready')) {
      logger.warn({ cause: causeOf(failed.reason) }, 'record not written to redis')
      throw unavailable()
    }
  }
}

function unavailable(): ApiError {
  return new ApiError('redis_unavailable', 'Redis is unavailable; retry the same request')
}
