import type { FastifyInstance, FastifyReply } from 'fastify'
import type { Clock } from '../../domain/clock.ts'
import { NEAR_LIMIT_PERCENT } from '../../domain/rate-limit.ts'
import { DEFAULT_REGION } from '../../domain/region.ts'
import { textField } from '../platform/html/form-parts.ts'
import { ago, cell, type Html, hintHtml, html, nameHtml, pageLinks } from '../platform/html/html.ts'
import { type Frame, page } from '../platform/html/layout.ts'
import {
  ADMINISTRATION,
  createFrame,
  readQuery,
  requireWorkspace,
  SHOWS,
  sendPage,
} from '../platform/html/page-request.ts'
import {
  ALL_LIMITS,
  ALL_USAGE,
  keyPath,
  keysPath,
  limitsPath,
  usagePath,
  WORKSPACES,
} from '../platform/html/paths.ts'
import { NEAR_LIMIT_CURSOR, type NearLimit, type NearLimitsReader } from './read-limits.ts'
import { numberText } from './usage-chart.ts'

const LIMITS_PER_PAGE = 50
const TITLE = 'Limits nearly used up'

interface LimitsPageParts {
  readonly usage: { readonly nearLimits: NearLimitsReader }
  readonly clock: Clock
}

/** Who is close to a limit: in a workspace, and for administrators in all. */
export function limitRoutes(scope: FastifyInstance, parts: LimitsPageParts): void {
  scope.get(`${WORKSPACES}/:workspaceId/limits`, SHOWS, (request, reply) =>
    showLimits(parts, requireWorkspace(request), reply),
  )
  scope.get(ALL_LIMITS, ADMINISTRATION, (_, reply) => showLimits(parts, null, reply))
}

/** @param workspaceId null: all */
async function showLimits(
  { usage: { nearLimits }, clock }: LimitsPageParts,
  workspaceId: string | null,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const cursor = textField(readQuery(reply.request), 'cursor')
  const after = NEAR_LIMIT_CURSOR.test(cursor) ? cursor : null
  const workspaceIds = workspaceId === null ? null : [workspaceId]
  const { limits, nextAfter } = await nearLimits.list({ workspaceIds, limit: LIMITS_PER_PAGE, after })
  const frame = createFrame(reply, { workspaceId, clock })
  const [back, backText] =
    workspaceId === null ? [ALL_USAGE, 'Usage of all workspaces'] : [usagePath(workspaceId), 'Usage']
  const main = html`<p class="back"><a href="${back}">${backText}</a></p>
    <h1>${TITLE}</h1>
    <p class="lead">Keys and workspaces that have used at least ${NEAR_LIMIT_PERCENT} % of a rate limit, the fullest first, as gateways reported them. A window of less than a minute is not listed.</p>
    ${limits.length === 0 ? nothing(nearLimits.areLimited, after !== null) : table(frame, limits)}
    ${pageLinks({ nextCursor: nextAfter, isFirstPage: after === null }, next => limitsPath(workspaceId, next))}`
  return sendPage(reply, page(frame, { title: TITLE, section: workspaceId === null ? null : 'usage', main }))
}

function nothing(areLimited: boolean, isLaterPage: boolean): Html {
  if (!areLimited) return html`<p class="empty">The settings of this console have no rate limits.</p>`
  if (isLaterPage) return html`<p class="empty">There are no more.</p>`
  return html`<p class="empty">No limit is nearly used up.</p>`
}

function table(frame: Frame, limits: readonly NearLimit[]): Html {
  const workspace = frame.workspaceId === null ? html`<th scope="col">Workspace</th>` : null
  return html`<table class="stacks"><caption class="hidden">Limits, the fullest first</caption>
    <thead><tr><th scope="col">Used up by</th>${workspace}<th scope="col">Plan</th><th scope="col">Policy</th><th scope="col">Used</th><th scope="col">Left</th><th scope="col">Window ends</th><th scope="col">Reported</th></tr></thead>
    <tbody>${limits.map(limit => row(frame, limit))}</tbody></table>`
}

function row({ workspaceId, nowMs }: Frame, limit: NearLimit): Html {
  const { plan, policy, region, used, requests, percent } = limit
  const owner = limit.workspace_id
  const where = region === DEFAULT_REGION ? null : html` <span class="muted">in ${region}</span>`
  return html`<tr><th scope="row">${user(limit)}</th>
    ${workspaceId === null ? cell('Workspace', html`<a class="breaks" href="${keysPath(owner)}">${owner}</a>`) : null}
    ${cell('Plan', plan === '' ? 'none' : plan)}
    ${cell('Policy', html`${policy}${where}`)}
    ${cell('Used', `${numberText(used)} of ${numberText(requests)} (${percent} %)`)}
    ${cell('Left', numberText(requests - used))}
    ${cell('Window ends', ago(limit.ends_at_ms, nowMs))}
    ${cell('Reported', ago(limit.reported_at_ms, nowMs))}</tr>`
}

function user({ workspace_id, key_id: id, name, hint }: NearLimit): Html {
  if (id === '') return html`<a href="${usagePath(workspace_id)}">All keys of the workspace</a>`
  const link = html`<a class="key-name" href="${keyPath(workspace_id, id)}">${nameHtml({ name: name ?? '', id })}</a>`
  return hint === null ? link : html`${link} ${hintHtml({ hint })}`
}
