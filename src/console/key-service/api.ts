import type { FastifyReply, FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import type { Clock } from '../../domain/clock.ts'
import { MAX_VERSION, type StoredKey } from '../../domain/key/key-record.ts'
import { DEFAULT_REGION, REGION_HEADER, REGION_NAME } from '../../domain/region.ts'
import { REVOCATION_TIMING } from '../../domain/revocation-timing.ts'
import { isDigest } from '../../domain/wire.ts'
import { describeError } from '../../observability/control-logger.ts'
import { encodeRecordOnce, type GatewayRows, type Regions } from '../announcing/index.ts'
import type { KeyRows } from '../keys/index.ts'
import type { ConsoleContext } from '../platform/capability.ts'
import { ApiError, invalidField } from '../platform/http/api-error.ts'
import type { Call } from '../platform/http/calls.ts'
import { fields } from '../platform/http/fields.ts'
import { readParameter } from '../platform/http/request-context.ts'
import { SharedLookups } from './shared-lookups.ts'

/** 1,000 changes. */
const CONFIRMATIONS_LIMIT_BYTES = 256 * 1024
const JSON_TYPE = 'application/json; charset=utf-8'

const DIGEST = '^[0-9a-f]{64}$'

export const lookupsBody = fields({
  digests: Type.Array(Type.String({ pattern: DIGEST }), {
    minItems: 1,
    maxItems: 256,
    description: 'a list of 1 to 256 digests, each of 64 lower-case hexadecimal digits',
  }),
})
type LookupsBody = Static<typeof lookupsBody>

export const confirmationsBody = fields({
  gateway: Type.Object(
    {
      id: Type.String({ pattern: '^[A-Za-z0-9._-]{1,64}$' }),
      name: Type.String({ pattern: '^[A-Za-z0-9._-]{1,253}$' }),
      region: Type.Optional(Type.String({ pattern: REGION_NAME })),
    },
    {
      additionalProperties: false,
      description:
        'an object with id and name, each of A-Z, a-z, 0-9 and "-", ".", "_", and region, if any, of a-z, 0-9 and "-"',
    },
  ),
  connected: Type.Boolean({ description: 'true or false' }),
  leaving: Type.Boolean({ description: 'true or false' }),
  drain: Type.Optional(
    Type.Union([Type.Literal('completed'), Type.Literal('timed_out')], {
      description: 'completed or timed_out',
    }),
  ),
  confirmed: Type.Array(
    fields({
      digest: Type.String({ pattern: DIGEST }),
      version: Type.Integer({ minimum: 1, maximum: MAX_VERSION }),
    }),
    { maxItems: 1000, description: 'a list of at most 1000 objects, each with digest and version' },
  ),
})
type ConfirmationsBody = Static<typeof confirmationsBody>

/** What gateways ask for, and what they report to. */
export interface KeyServiceSources {
  readonly stored: Pick<KeyRows['stored'], 'findByDigests'>
  readonly gateways: GatewayRows
  readonly regions: Regions
}

interface KeyServiceParts
  extends Pick<ConsoleContext, 'clock' | 'secrets' | 'logger' | 'metrics'>,
    KeyServiceSources {
  readonly usageCall: Call
}

/** The calls of gateways, without their prefix: lookups that Redis cannot answer, and reports. */
export function keyServiceCalls(parts: KeyServiceParts): Call[] {
  for (const outcome of ['completed', 'timed_out']) parts.metrics.gatewayDrains.inc({ outcome }, 0)
  const lookups = shareLookups(parts)
  const liveGateways = new LiveGateways(parts.gateways, parts.clock)
  return [
    {
      method: 'GET',
      url: '/keys/:digest',
      operation: 'lookup',
      handle: (request, reply) => lookUpKey(parts, lookups, request, reply),
    },
    {
      method: 'POST',
      url: '/lookups',
      operation: 'lookups',
      schema: { body: lookupsBody },
      handle: (request, reply) => lookUpKeys(parts, lookups, request, reply),
    },
    parts.usageCall,
    {
      method: 'POST',
      url: '/confirmations',
      operation: 'confirmations',
      schema: { body: confirmationsBody },
      bodyLimitBytes: CONFIRMATIONS_LIMIT_BYTES,
      handle: (request, reply) => recordConfirmations(parts, liveGateways, request, reply),
    },
  ]
}

/** A record as JSON text, once for all gateways that share the lookup. Without a text, its row in the database is broken. */
interface FoundRecord {
  readonly key: StoredKey
  readonly text: string | null
  /** Regions in whose Redis it was written. */
  readonly refilled: Set<string | null>
}

/** Null if the key does not exist. */
type LookupResult = FoundRecord | null

function shareLookups(parts: KeyServiceParts): SharedLookups<LookupResult> {
  return new SharedLookups(async digests => {
    const keys = await parts.stored.findByDigests(digests)
    const found = new Map([...keys].map(([digest, key]) => [digest, encodeFound(parts, key)]))
    return digest => found.get(digest) ?? null
  })
}

function encodeFound({ secrets, logger }: KeyServiceParts, key: StoredKey): FoundRecord {
  const refilled = new Set<string | null>()
  try {
    return { key, text: encodeRecordOnce(key, secrets.value.recordKeys[0]), refilled }
  } catch (error) {
    logger.error({ keyId: key.record.id, cause: describeError(error) }, 'invalid key row in the database')
    return { key, text: null, refilled }
  }
}

/** The Redis of other regions is left alone: their gateways may never ask for these keys. */
function refill(parts: KeyServiceParts, results: readonly LookupResult[], request: FastifyRequest): void {
  const header = request.headers[REGION_HEADER]
  const region = typeof header === 'string' ? header : null
  const lacking = results.filter(
    found => found !== null && found.text !== null && !found.refilled.has(region),
  )
  for (const found of lacking) found?.refilled.add(region)
  parts.regions.refill(
    lacking.flatMap(found => found?.key ?? []),
    region,
  )
}

async function lookUpKey(
  parts: KeyServiceParts,
  lookups: SharedLookups<LookupResult>,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const digest = readParameter(request, 'digest')
  if (!isDigest(digest)) throw invalidField('digest', '64 lower-case hexadecimal digits')
  const results = await lookups.find([digest], abandonedSignal(reply))
  if (results === null) return reply.hijack()
  const [found = null] = results
  // Gateways take this response, and only this one, as proof that the key does not exist.
  if (found === null) throw new ApiError('not_found', 'No key has this digest')
  request.keyId = found.key.record.id
  if (found.text === null) throw new Error('Invalid key row in the database')
  reply.type(JSON_TYPE).send(found.text)
  refill(parts, results, request)
  return reply
}

/** Null is proof that the key does not exist, as is the 404 of a single lookup. */
async function lookUpKeys(
  parts: KeyServiceParts,
  lookups: SharedLookups<LookupResult>,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  // The route's schema has validated the body.
  const digests = [...new Set((request.body as LookupsBody).digests)]
  const found = await lookups.find(digests, abandonedSignal(reply))
  if (found === null) return reply.hijack()
  const records = digests.flatMap((digest, index) => {
    const record = found[index] ?? null
    // A broken row is left out, which is neither a record nor proof of absence.
    return record !== null && record.text === null ? [] : `"${digest}":${record?.text ?? null}`
  })
  // Each record is already JSON text, the same as in a single lookup.
  reply.type(JSON_TYPE).send(`{"records":{${records.join(',')}}}`)
  refill(parts, found, request)
  return reply
}

/** A gateway closes the connection at its deadline: under overload, work for it would delay the others. */
function abandonedSignal({ raw }: FastifyReply): AbortSignal {
  const abandoned = new AbortController()
  raw.once('close', () => {
    if (!raw.writableFinished) abandoned.abort()
  })
  return abandoned.signal
}

async function recordConfirmations(
  { gateways, clock, secrets, regions, metrics }: KeyServiceParts,
  liveGateways: LiveGateways,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  // The route's schema has validated the body.
  const { gateway, connected, leaving, confirmed, drain } = request.body as ConfirmationsBody
  // Here, because Prometheus may never scrape the gateway between the end of its drain and its exit.
  if (leaving && drain !== undefined) metrics.gatewayDrains.inc({ outcome: drain })
  await gateways.recordGateway({
    ...gateway,
    region: gateway.region ?? DEFAULT_REGION,
    isConnected: connected,
    isLeaving: leaving,
    confirmed,
  })
  // Gateways share the rate limits that they cannot count together.
  const liveCount = await liveGateways.count()
  return reply.send({
    // By them a gateway notices that it has other secrets, or a region that changes are not announced to.
    signingSecrets: secrets.value.fingerprints,
    regions: regions.list.map(({ name }) => name),
    gateways: liveCount,
    // Read last: by it, gateways recognize heartbeats that are replayed.
    at: clock.wallMs(),
  })
}

/** Each gateway reports every few seconds, and during changes more often. */
const COUNT_FOR_MS = 1_000

/** Counts the gateways that reported within the last minute, at most once a second. */
class LiveGateways {
  readonly #gateways: KeyServiceParts['gateways']
  readonly #clock: Clock
  #count = Promise.resolve(0)
  #countedAtMs = Number.NEGATIVE_INFINITY

  constructor(gateways: KeyServiceParts['gateways'], clock: Clock) {
    this.#gateways = gateways
    this.#clock = clock
  }

  count(): Promise<number> {
    const nowMs = this.#clock.monotonicMs()
    if (nowMs - this.#countedAtMs >= COUNT_FOR_MS) {
      this.#countedAtMs = nowMs
      const sinceMs = this.#clock.wallMs() - REVOCATION_TIMING.gatewayExpiryMs
      this.#count = this.#gateways.countGateways(sinceMs)
      this.#count.catch(() => {
        // The caller gets the error; the next call counts again.
        this.#countedAtMs = Number.NEGATIVE_INFINITY
      })
    }
    return this.#count
  }
}
