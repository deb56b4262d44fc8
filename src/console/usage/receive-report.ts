import type { FastifyReply, FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import type { Clock } from '../../domain/clock.ts'
import { DEFAULT_REGION, isRegionName, REGION_HEADER } from '../../domain/region.ts'
import type { Metrics } from '../../observability/metrics/metrics.ts'
import { ApiError, invalidField } from '../platform/http/api-error.ts'
import type { Call } from '../platform/http/calls.ts'
import { fields } from '../platform/http/fields.ts'
import type { StoredUsage } from './read-usage.ts'
import { checkReport, type FindKnown, LISTS, PARTS, type RefusedEntries } from './reports/check-report.ts'
import type { ReportGatherer } from './reports/store-reports.ts'
import type { UseWriter } from './reports/use-writer.ts'

/** 10,000 of the longest entries. */
const REPORT_LIMIT_BYTES = 6 * 1024 * 1024
/** Of a report, all lists together. A gateway with more sends several reports. */
const MAX_ENTRIES = 10_000
const ENTRIES_EXPECTED = `A report has at most ${MAX_ENTRIES} entries; send several, each with its own sequence`
const GATEWAY = /^[A-Za-z0-9._:-]{1,320}$/
const GATEWAY_EXPECTED = '1 to 320 characters of A-Z, a-z, 0-9 and "-", ".", "_", ":"'
const SEQUENCE_EXPECTED = 'a whole number from 1'
const RETRY = { 'retry-after': '10' }
const USED_EXPECTED = 'an object of at most 10000 key ids, each with whole milliseconds since the epoch'

const listSchema = (entries: string) =>
  Type.Array(Type.Unknown(), {
    maxItems: MAX_ENTRIES,
    description: `a list of at most ${MAX_ENTRIES} ${entries}`,
  })

/** A report of a gateway as it arrives. Entries of the lists are validated one by one: a wrong one keeps no other out. */
export const usageReportBody = fields({
  used: Type.Optional(
    Type.Unsafe<Record<string, unknown>>({
      type: 'object',
      maxProperties: MAX_ENTRIES,
      description: USED_EXPECTED,
    }),
  ),
  /** Identifies a process: a restarted gateway is another one. Version 1 of the contract has `used` alone. */
  gateway: Type.Optional(Type.Unknown()),
  sequence: Type.Optional(
    Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER, description: SEQUENCE_EXPECTED }),
  ),
  counts: Type.Optional(listSchema('counts')),
  refusals: Type.Optional(listSchema('refusals')),
  omittedRefusals: Type.Optional(listSchema('workspaces')),
  limits: Type.Optional(listSchema('limits')),
  lost: Type.Optional(Type.Integer({ minimum: 0, description: 'a whole number' })),
})
type UsageReportBody = Static<typeof usageReportBody>

interface ReceivingParts {
  readonly uses: Pick<UseWriter, 'record'>
  readonly gatherer: Pick<ReportGatherer, 'store'>
  readonly findKnown: FindKnown
  readonly clock: Clock
  readonly metrics: Pick<Metrics, 'usageEntriesRefused'>
  readonly stores: StoredUsage
}

/** The call in which gateways report what was used, counted and refused. */
export function usageCall(parts: ReceivingParts): Call {
  for (const list of PARTS) parts.metrics.usageEntriesRefused.inc({ list }, 0)
  return {
    method: 'POST',
    url: '/usage',
    operation: 'usage',
    schema: { body: usageReportBody },
    bodyLimitBytes: REPORT_LIMIT_BYTES,
    handle: (request, reply) => receiveReport(parts, request, reply),
  }
}

async function receiveReport(
  parts: ReceivingParts,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<unknown> {
  // The route's schema has validated the body.
  const body = request.body as UsageReportBody
  const { gateway, sequence } = body
  const isNumbered = gateway !== undefined || sequence !== undefined
  if (!isNumbered && body.counts === undefined && body.refusals === undefined) {
    // Version 1 of the contract has only when keys were last used.
    if (body.used === undefined) throw invalidField('used', USED_EXPECTED)
    const { used } = await check(parts, { used: body.used })
    await parts.uses.record(used)
    return reply.code(204).send()
  }
  if (typeof gateway !== 'string' || !GATEWAY.test(gateway)) throw invalidField('gateway', GATEWAY_EXPECTED)
  if (sequence === undefined) throw invalidField('sequence', SEQUENCE_EXPECTED)
  if (entriesIn(body) > MAX_ENTRIES) throw new ApiError('invalid_request', ENTRIES_EXPECTED)
  const { refused, ...checked } = await check(parts, body)
  const region = request.headers[REGION_HEADER] ?? DEFAULT_REGION
  if (!isRegionName(region)) throw invalidField(REGION_HEADER, 'the name of a region')
  await parts.gatherer.store({ gateway, region, sequence, ...checked }).catch(() => {
    throw new ApiError('database_unavailable', 'The report is not stored; send it again', RETRY)
  })
  return responseTo(refused)
}

function entriesIn({ used = {}, ...lists }: UsageReportBody): number {
  return LISTS.reduce((sum, list) => sum + (lists[list]?.length ?? 0), Object.keys(used).length)
}

async function check({ findKnown, clock, metrics, stores }: ReceivingParts, body: UsageReportBody) {
  const { counts = [], refusals = [], omittedRefusals = [], limits = [], used = {} } = body
  const ofRefusals = stores.refusals ? { refusals, omittedRefusals } : {}
  const lists = { limits, ...ofRefusals, ...(stores.counts ? { counts } : {}) }
  const checked = checkReport({ ...lists, used }, await findKnown(lists), clock.wallMs())
  for (const list of PARTS) metrics.usageEntriesRefused.inc({ list }, checked.refused[list])
  return checked
}

/** Names a few refused entries only: a response must not be larger than the report. */
function responseTo({ first, requests, ...refused }: RefusedEntries): object {
  const entries = PARTS.reduce((sum, part) => sum + refused[part], 0)
  return entries === 0 ? {} : { refused: entries, requests, first }
}
