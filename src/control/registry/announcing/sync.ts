import type { Clock } from '../../../domain/clock.ts'
import { KEPT_AFTER_EXPIRY_MS } from '../../../domain/wire.ts'
import { type ControlLogger, causeOf } from '../../../observability/control-logger.ts'
import { type SyncBody, syncBody } from '../../http/admin-schemas.ts'
import { ApiError } from '../../http/api-error.ts'
import type { Call } from '../../http/calls.ts'
import type { KeyRepository, StoredKey } from '../database/key-repository.ts'
import type { Announcer } from './announcer.ts'

const DEFAULT_PAGE_SIZE = 1000
const MAX_ATTEMPTS = 5

export interface SyncParts {
  readonly repository: KeyRepository
  readonly announcer: Announcer
  readonly clock: Clock
  readonly logger: ControlLogger
}

/** Rebuilds what is in Redis, a page at a time; the caller asks for the next one, and may stop at any. */
export function syncCalls(parts: SyncParts): Call[] {
  return [
    {
      method: 'POST',
      url: '/sync',
      operation: 'sync',
      schema: { body: syncBody },
      // The schema of the route has shown the body to be this.
      handle: request => syncPage(parts, (request.body as SyncBody) ?? {}),
    },
  ]
}

/** Every key that Redis would hold, oldest first, whatever its state. Keys issued meanwhile get there by themselves. */
async function syncPage(parts: SyncParts, { limit, cursor }: NonNullable<SyncBody>) {
  const { repository, announcer, clock } = parts
  if (announcer.state() !== 'ready') throw unavailable()
  const expiresAfterMs = clock.wallMs() - KEPT_AFTER_EXPIRY_MS
  // Counted once, on the first page: the cursor remembers.
  const [counted = null, afterId = null] = cursor?.split('.') ?? []
  const total = counted === null ? await repository.countForSync(expiresAfterMs) : Number(counted)
  const page = await repository.listForSync({ expiresAfterMs, limit: limit ?? DEFAULT_PAGE_SIZE, afterId })
  await putPage(parts, page.keys)
  const synced = { synced: page.keys.length, total }
  return page.nextAfterId === null ? synced : { ...synced, cursor: `${total}.${page.nextAfterId}` }
}

/** A busy Redis answers some of so many commands too late: those are sent again, before the caller is bothered. */
async function putPage({ announcer, logger }: SyncParts, keys: readonly StoredKey[]): Promise<void> {
  let left = keys
  for (let attempt = 1; left.length > 0; attempt++) {
    const results = await announcer.putAll(left)
    left = left.filter((_, index) => results[index]?.status === 'rejected')
    const failed = results.find(result => result.status === 'rejected')
    if (failed !== undefined && (attempt === MAX_ATTEMPTS || announcer.state() !== 'ready')) {
      logger.warn({ cause: causeOf(failed.reason) }, 'a record could not be written to Redis')
      throw unavailable()
    }
  }
}

function unavailable(): ApiError {
  return new ApiError('redis_unavailable', 'Redis cannot be reached; the same request can be sent again')
}
