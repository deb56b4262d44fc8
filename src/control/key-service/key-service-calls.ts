import type { FastifyReply, FastifyRequest } from 'fastify'
import { DEFAULT_REGION } from '../../domain/region.ts'
import { encodeRecord, isDigest } from '../../domain/wire.ts'
import { type ControlLogger, causeOf } from '../../observability/control-logger.ts'
import type { Metrics } from '../../observability/metrics/metrics.ts'
import { ApiError, invalidField } from '../http/api-error.ts'
import type { Call } from '../http/calls.ts'
import type { RecordKeys } from '../registry/announcing/write-record.ts'
import type { KeyRepository, StoredKey } from '../registry/database/key-repository.ts'
import {
  type ConfirmationsBody,
  confirmationsBody,
  type LookupsBody,
  lookupsBody,
} from './key-service-schemas.ts'
import type { LiveGateways } from './live-gateways.ts'

/** 1,000 changes. */
const CONFIRMATIONS_LIMIT_BYTES = 256 * 1024
const JSON_TYPE = 'application/json; charset=utf-8'

export interface KeyServiceParts {
  readonly repository: KeyRepository
  readonly recordKeys: RecordKeys
  /** Fingerprints of the signing secrets, by which a gateway notices that it has others. */
  readonly fingerprints: readonly string[]
  readonly liveGateways: Pick<LiveGateways, 'count'>
  readonly logger: ControlLogger
  readonly usageCall: Call
  readonly metrics: Pick<Metrics, 'gatewayDrains'>
  /** Writes records that Redis lacks, without delaying the response. */
  readonly refill: (keys: readonly StoredKey[]) => void
}

/** The calls of gateways, without their prefix: lookups that Redis cannot answer, and reports. */
export function keyServiceCalls(parts: KeyServiceParts): Call[] {
  for (const outcome of ['completed', 'timed_out']) parts.metrics.gatewayDrains.inc({ outcome }, 0)
  return [
    {
      method: 'GET',
      url: '/keys/:digest',
      operation: 'lookup',
      handle: (request, reply) => lookUpKey(parts, request, reply),
    },
    {
      method: 'POST',
      url: '/lookups',
      operation: 'lookups',
      schema: { body: lookupsBody },
      handle: (request, reply) => lookUpKeys(parts, request, reply),
    },
    parts.usageCall,
    {
      method: 'POST',
      url: '/confirmations',
      operation: 'confirmations',
      schema: { body: confirmationsBody },
      bodyLimitBytes: CONFIRMATIONS_LIMIT_BYTES,
      handle: (request, reply) => recordConfirmations(parts, request, reply),
    },
  ]
}

async function lookUpKey(
  { repository, recordKeys, refill }: KeyServiceParts,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  // The router yields a text for each parameter in the path.
  const { digest } = request.params as { digest: string }
  if (!isDigest(digest)) throw invalidField('digest', '64 lower-case hexadecimal digits')
  const key = await repository.findByDigest(digest)
  // Gateways take this response, and only this one, as proof that the key does not exist.
  if (key === null) throw new ApiError('not_found', 'No key has this digest')
  request.keyId = key.record.id
  refill([key])
  return reply.type(JSON_TYPE).send(encodeRecord(key.record, digest, recordKeys[0]))
}

/** Null is proof that the key does not exist, as is the 404 of a single lookup. */
async function lookUpKeys(
  parts: KeyServiceParts,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  // The route's schema has validated the body.
  const digests = [...new Set((request.body as LookupsBody).digests)]
  const keys = await parts.repository.findByDigests(digests)
  const records = digests.flatMap(digest => {
    const text = recordTextOf(parts, digest, keys.get(digest))
    return text === null ? [] : `"${digest}":${text}`
  })
  parts.refill([...keys.values()])
  // Each record is already JSON text, the same as in a single lookup.
  return reply.type(JSON_TYPE).send(`{"records":{${records.join(',')}}}`)
}

/** @returns null for a broken row: it is left out, which is neither a record nor proof of absence */
function recordTextOf(
  { recordKeys, logger }: KeyServiceParts,
  digest: string,
  key: StoredKey | undefined,
): string | null {
  if (key === undefined) return 'null'
  try {
    return encodeRecord(key.record, digest, recordKeys[0])
  } catch (error) {
    logger.error({ keyId: key.record.id, cause: causeOf(error) }, 'invalid key row in the database')
    return null
  }
}

async function recordConfirmations(
  { repository, fingerprints, liveGateways, metrics }: KeyServiceParts,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  // The route's schema has validated the body.
  const { gateway, hearing, leaving, confirmed, drain } = request.body as ConfirmationsBody
  // Here, because Prometheus may never scrape the gateway between the end of its drain and its exit.
  if (leaving && drain !== undefined) metrics.gatewayDrains.inc({ outcome: drain })
  await repository.recordGateway({
    ...gateway,
    region: gateway.region ?? DEFAULT_REGION,
    isConnected: hearing,
    isLeaving: leaving,
    confirmed,
  })
  // Gateways share the rate limits that they cannot count together.
  return reply.send({ signingSecrets: fingerprints, gateways: await liveGateways.count() })
}
