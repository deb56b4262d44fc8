import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Clock } from '../domain/clock.ts'
import { encodeRecord, isDigest } from '../domain/wire.ts'
import { type ControlLogger, causeOf } from '../observability/control-logger.ts'
import {
  type ConfirmationsBody,
  confirmationsBody,
  type LookupsBody,
  lookupsBody,
  type UsageBody,
  usageBody,
} from './http/admin-schemas.ts'
import { ApiError, invalidField } from './http/api-error.ts'
import type { Call } from './http/calls.ts'
import type { RecordKeys } from './registry/announcing/projection.ts'
import type { KeyRepository, StoredKey } from './registry/database/key-repository.ts'

/** 10,000 ids with their times. */
const USAGE_LIMIT_BYTES = 1024 * 1024
/** So many are written in one transaction; changes to keys go in between. */
const USES_AT_ONCE = 500
/** 1,000 changes. */
const CONFIRMATIONS_LIMIT_BYTES = 256 * 1024
const KEY_ID = /^key_[0-9A-HJKMNP-TV-Z]{26}$/
const JSON_TYPE = 'application/json; charset=utf-8'

export interface KeyServiceParts {
  readonly repository: KeyRepository
  readonly clock: Clock
  readonly recordKeys: RecordKeys
  readonly logger: ControlLogger
  /** Writes what Redis did not know, off the way of the answer. */
  readonly refill: (keys: readonly StoredKey[]) => void
}

/** What gateways ask where Redis doesn't know, and what they tell, without its prefix. */
export function keyServiceCalls(parts: KeyServiceParts): Call[] {
  return [
    {
      method: 'GET',
      url: '/keys/:digest',
      operation: 'lookup',
      handle: (request, reply) => lookUp(parts, request, reply),
    },
    {
      method: 'POST',
      url: '/lookups',
      operation: 'lookups',
      schema: { body: lookupsBody },
      handle: (request, reply) => lookUpMany(parts, request, reply),
    },
    {
      method: 'POST',
      url: '/usage',
      operation: 'usage',
      schema: { body: usageBody },
      bodyLimitBytes: USAGE_LIMIT_BYTES,
      handle: (request, reply) => noteUsage(parts, request, reply),
    },
    {
      method: 'POST',
      url: '/confirmations',
      operation: 'confirmations',
      schema: { body: confirmationsBody },
      bodyLimitBytes: CONFIRMATIONS_LIMIT_BYTES,
      handle: (request, reply) => noteConfirmations(parts, request, reply),
    },
  ]
}

async function lookUp(
  { repository, recordKeys, refill }: KeyServiceParts,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  // The router gives text under each name that the path has.
  const { digest } = request.params as { digest: string }
  if (!isDigest(digest)) throw invalidField('digest', '64 lower-case hexadecimal digits')
  const key = await repository.findByDigest(digest)
  // Gateways take this answer, and only this one, as proof that there is no such key.
  if (key === null) throw new ApiError('not_found', 'There is no key with this digest')
  request.keyId = key.record.id
  refill([key])
  return reply.type(JSON_TYPE).send(encodeRecord(key.record, digest, recordKeys[0]))
}

/** Null is proof that there is no such key, as the 404 of a single look-up is. */
async function lookUpMany(
  parts: KeyServiceParts,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  // The schema of the route has shown the body to be this.
  const digests = [...new Set((request.body as LookupsBody).digests)]
  const keys = await parts.repository.findByDigests(digests)
  const answers = digests.flatMap(digest => {
    const text = answerOf(parts, digest, keys.get(digest))
    return text === null ? [] : `"${digest}":${text}`
  })
  parts.refill([...keys.values()])
  // Each record is text already, the same as the answer to a single look-up.
  return reply.type(JSON_TYPE).send(`{"records":{${answers.join(',')}}}`)
}

/** @returns null for a row that makes no record: one that is broken takes none of the others along, and is no "no" */
function answerOf(
  { recordKeys, logger }: KeyServiceParts,
  digest: string,
  key: StoredKey | undefined,
): string | null {
  if (key === undefined) return 'null'
  try {
    return encodeRecord(key.record, digest, recordKeys[0])
  } catch (error) {
    logger.error({ keyId: key.record.id, cause: causeOf(error) }, 'a row of the database makes no record')
    return null
  }
}

async function noteUsage(
  { repository, clock }: KeyServiceParts,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const nowMs = clock.wallMs()
  // The schema of the route has shown the body to be this. A clock that is ahead must not use up the future.
  const used = Object.entries((request.body as UsageBody).used)
    .filter(([id]) => KEY_ID.test(id))
    .map(([id, ms]) => [id, Math.min(ms, nowMs)] as const)
  for (let from = 0; from < used.length; from += USES_AT_ONCE) {
    await repository.noteUse(new Map(used.slice(from, from + USES_AT_ONCE)))
  }
  return reply.code(204).send()
}

async function noteConfirmations(
  { repository }: KeyServiceParts,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  // The schema of the route has shown the body to be this.
  const { gateway, ...report } = request.body as ConfirmationsBody
  await repository.noteGateway({ ...gateway, ...report })
  return reply.code(204).send()
}
