import { type Static, Type } from 'typebox'
import type { Clock } from '../../domain/clock.ts'
import { idPattern } from '../../domain/id-form.ts'
import type { StoredKey } from '../../domain/key/key-record.ts'
import { REGION_NAME } from '../../domain/region.ts'
import { KEPT_AFTER_EXPIRY_MS } from '../../domain/wire.ts'
import { describeError } from '../../observability/control-logger.ts'
import { ApiError, invalidField } from '../platform/http/api-error.ts'
import { type AdminCall, declareCalls } from '../platform/http/calls.ts'
import { optionalFields } from '../platform/http/fields.ts'
import type { Region, Regions } from './regions.ts'

const adminCall = declareCalls<SyncParts>()

const DEFAULT_PAGE_SIZE = 1000
/** Bounds the memory of a sync, which no gateway waits for. */
const WRITTEN_AT_ONCE = 128
const MAX_ATTEMPTS = 5

/** All keys in the order of their ids. */
export interface KeysToSync {
  /** Oldest first, in any state. */
  listForSync(page: SyncRange): Promise<{
    readonly keys: readonly StoredKey[]
    /** Where the next page starts; null on the last. */
    readonly nextAfterId: string | null
  }>
  /** Null: too many to count. */
  countForSync(expiresAfterMs: number): Promise<number | null>
}

interface SyncRange {
  readonly expiresAfterMs: number
  readonly limit: number
  readonly afterId: string | null
}

interface SyncParts {
  readonly stored: KeysToSync
  readonly clock: Clock
  readonly regions: Regions
}

const syncBody = optionalFields({
  limit: Type.Optional(
    Type.Integer({ minimum: 1, maximum: 1000, description: 'a whole number from 1 to 1000' }),
  ),
  cursor: Type.Optional(
    Type.String({
      pattern: `^[0-9]{0,15}\\.${idPattern('key')}$`,
      description: 'a cursor from an earlier response',
    }),
  ),
  region: Type.Optional(
    Type.String({ pattern: REGION_NAME, description: 'the name of a region of this console' }),
  ),
})

/** Its calls, without their prefix. `syncKeys` rewrites the records in Redis a page at a time; the caller requests each page. */
export const ANNOUNCING_CALLS: readonly AdminCall<SyncParts>[] = [
  adminCall({
    id: 'syncKeys',
    method: 'POST',
    url: '/sync',
    operation: 'sync',
    permission: 'keys:write',
    workspaces: 'all',
    summary: 'Rewrites a page of records in Redis',
    body: syncBody,
    response: Type.Object({
      synced: Type.Integer({ minimum: 0, description: 'Records of this page' }),
      total: Type.Optional(
        Type.Integer({
          minimum: 0,
          description: 'Records of all pages; left out if counting takes over two seconds',
        }),
      ),
      cursor: Type.Optional(Type.String({ description: 'Of the next page; absent on the last' })),
    }),
    errors: ['redis_unavailable'],
    handle: (parts, { body }) => syncPage(parts, body ?? {}),
  }),
]

/** Every key that Redis should hold, oldest first, in any state. Keys issued meanwhile are announced anyway. */
async function syncPage(parts: SyncParts, { limit, cursor, region }: NonNullable<Static<typeof syncBody>>) {
  const { stored, clock } = parts
  const regions = parts.regions.list.filter(({ name }) => region === undefined || name === region)
  if (regions.length === 0) throw invalidField('region', 'the name of a region of this console')
  for (const each of regions) requireReady(each)
  const expiresAfterMs = clock.wallMs() - KEPT_AFTER_EXPIRY_MS
  // Counted once: the cursor carries the total, or nothing in its place.
  const [total = '', afterId = null] = cursor?.split('.') ?? [
    String((await stored.countForSync(expiresAfterMs)) ?? ''),
  ]
  const page = await stored.listForSync({ expiresAfterMs, limit: limit ?? DEFAULT_PAGE_SIZE, afterId })
  await Promise.all(regions.map(each => putPage(each, page.keys)))
  const synced = { synced: page.keys.length, ...(total === '' ? {} : { total: Number(total) }) }
  return page.nextAfterId === null ? synced : { ...synced, cursor: `${total}.${page.nextAfterId}` }
}

async function putPage(region: Region, keys: readonly StoredKey[]): Promise<void> {
  for (let from = 0; from < keys.length; from += WRITTEN_AT_ONCE) {
    await putSome(region, keys.slice(from, from + WRITTEN_AT_ONCE))
  }
}

/** A busy Redis answers some of so many commands too late: those are repeated before the caller sees an error. */
async function putSome(region: Region, keys: readonly StoredKey[]): Promise<void> {
  const { announcer, outbox, logger } = region
  let left = keys
  for (let attempt = 1; left.length > 0; attempt++) {
    const results = await outbox.write(left.map(key => ({ key, messages: [] })))
    left = left.filter((_, index) => results[index]?.status === 'rejected')
    const failed = results.find(result => result.status === 'rejected')
    if (failed !== undefined && (attempt === MAX_ATTEMPTS || announcer.state() !== 'ready')) {
      logger.warn({ cause: describeError(failed.reason) }, 'record not written to redis')
      throw unavailable(region)
    }
  }
}

function requireReady(region: Region): void {
  if (region.announcer.state() !== 'ready') throw unavailable(region)
}

function unavailable({ name, roundTrip }: Region): ApiError {
  const where = roundTrip === null ? 'Redis' : `Redis of the region ${name}`
  return new ApiError('redis_unavailable', `${where} is unavailable; retry the same request`)
}
