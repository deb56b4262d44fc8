import type { FastifyInstance, FastifyReply } from 'fastify'
import { isFinal } from '../../domain/key/key-record.ts'
import type { AuditEntry } from '../platform/audit/entries.ts'
import {
  ago,
  type Html,
  hintHtml,
  html,
  instant,
  lastUsed,
  markInvisible,
  nameHtml,
} from '../platform/html/html.ts'
import { type Frame, page } from '../platform/html/layout.ts'
import { createFrame, readQuery, SHOWS, sendPage } from '../platform/html/page-request.ts'
import { auditPath, keyPath, keysPath, refusalsPath, WORKSPACES } from '../platform/html/paths.ts'
import {
  type KeyUsage,
  keyUsage,
  type LimitsInUse,
  limitsCard,
  type RecentUse,
  readChartRange,
  readKeyUsage,
  readRecentUse,
  recentUseText,
} from '../usage/index.ts'
import { facts } from './key-form.ts'
import {
  isExpiring,
  type KeyPageParts,
  type KeyView,
  readActorName,
  readKeyView,
  requireKey,
  stateBadge,
} from './key-view.ts'
import { stepsFrom } from './operations/key-operations.ts'
import { type KeyStep, stepDialog } from './step-pages.ts'

export function keyRoutes(scope: FastifyInstance, parts: KeyPageParts): void {
  scope.get(`${WORKSPACES}/:workspaceId/keys/:keyId`, SHOWS, (_, reply) => showKey(parts, reply))
}

async function showKey(sources: KeyPageParts, reply: FastifyReply): Promise<FastifyReply> {
  const { registry, usage: counts } = sources
  const { record } = await requireKey(reply.request, registry)
  const relative = async (id: string | null): Promise<KeyView | null> => {
    const key = id === null ? null : await registry.stored.findById(id)
    // An import may name any id, also of a key that its workspace must not see.
    return key?.record.workspaceId === record.workspaceId ? readKeyView(key.record, registry) : null
  }
  const [origin, leaks, key, predecessor, successor, usage, limits, recent] = await Promise.all([
    registry.history.findOrigin(record),
    registry.history.listLeaks(record.id),
    readKeyView(record, registry),
    relative(record.rotatedFrom),
    relative(record.replacedBy),
    readKeyUsage(sources, record, readChartRange(readQuery(reply.request))),
    counts.limits.ofKey(record),
    readRecentUse(sources, record),
  ])
  const recentOfOld = await readRecentUse(
    sources,
    predecessor?.state === 'retiring' ? predecessor.record : null,
  )
  const frame = createFrame(reply, { workspaceId: record.workspaceId, clock: registry.clock })
  const details = { key, predecessor, successor, creator: readActorName(origin), leaks, usage, limits }
  return sendPage(reply, keyPage(frame, { ...details, recent: { key: recent, predecessor: recentOfOld } }))
}

interface KeyDetails {
  readonly key: KeyView
  /** The key that this one replaces, and the one that replaces it; null if there is none. */
  readonly predecessor: KeyView | null
  readonly successor: KeyView | null
  /** Name of the person who issued it; null if none is known. */
  readonly creator: string | null
  /** Null if requests are not counted. */
  readonly usage: KeyUsage | null
  readonly limits: LimitsInUse
  /** Of this key and its predecessor; null if it is not known. */
  readonly recent: { readonly key: RecentUse | null; readonly predecessor: RecentUse | null }
  /** Reports of it as leaked, newest first. */
  readonly leaks: readonly AuditEntry[]
}

function keyPage(frame: Frame, details: KeyDetails): Html {
  const { key } = details
  const { record } = key
  const main = html`<p class="back"><a href="${keysPath(record.workspaceId)}">Keys</a></p>
    <div class="title"><h1>${nameHtml(record)}</h1>${frame.mayChange ? actions(key) : null}</div>
    ${leakNotice(details, frame.nowMs)}
    ${warning(frame, key)}
    ${rotation(frame, details)}
    <section class="card" aria-labelledby="facts"><h2 id="facts">Details</h2>${facts(key, frame.nowMs, details.creator)}</section>
    <p><a href="${auditPath(record.workspaceId, { keyId: record.id })}">Audit of this key</a> · <a href="${refusalsPath(record.workspaceId, { keyId: record.id })}">Rejections of this key</a></p>
    ${keyUsage(key, details.usage, frame.nowMs)}
    ${isFinal(key.state) ? null : limitsCard(details.limits, frame.nowMs)}
    ${frame.mayChange ? dialogs(frame, details) : null}`
  return page(frame, { title: `Key ${record.hint}`, section: 'keys', main })
}

/** Links to the pages that change the key; the script opens questions as dialogs. */
function actions({ record, state }: KeyView): Html | null {
  const path = (act: 'rotate' | 'edit') => keyPath(record.workspaceId, record.id, act)
  const step = (name: KeyStep, kind: string, label: string) =>
    html`<a class="button ${kind}" href="${keyPath(record.workspaceId, record.id, name)}" data-opens="${name}-dialog">${label}</a>`
  if (isFinal(state)) return null
  const offered = stepsFrom(state)
  return html`<div class="actions">
    ${state === 'active' ? html`<a class="button primary" href="${path('rotate')}">Rotate</a>` : null}
    ${offered.includes('resume') ? step('resume', 'primary', 'Resume') : null}
    <a class="button" href="${path('edit')}">Edit</a>
    ${offered.includes('suspend') ? step('suspend', '', 'Suspend') : null}
    ${offered.includes('revoke') ? step('revoke', 'danger', 'Revoke') : null}
  </div>`
}

/** Null for a key that was never reported as leaked. */
export function leakNotice(
  { key, leaks }: { readonly key: KeyView; readonly leaks: readonly AuditEntry[] },
  nowMs: number,
): Html | null {
  if (leaks.length === 0) return null
  const isRejected = isFinal(key.state)
  return html`<section class="notice ${isRejected ? '' : 'warn'}" aria-labelledby="leak">
    <h2 id="leak">Reported as leaked</h2>
    <ul>${leaks.map(entry => leakItem(entry, nowMs))}</ul>
    ${isRejected ? null : html`<p>Any person who has seen the key can use it. Replace it in your clients, then revoke it.</p>`}
  </section>`
}

/** The address is no link: a stranger may have chosen it. */
function leakItem({ atMs, detail }: AuditEntry, nowMs: number): Html {
  const foundAt = detail['foundAt']
  const place =
    typeof foundAt === 'string'
      ? html`, found at <span class="breaks">${markInvisible(foundAt)}</span>`
      : null
  return html`<li>${instant(atMs)} (${ago(atMs, nowMs)})${place}</li>`
}

function warning({ mayChange, nowMs }: Frame, key: KeyView): Html | null {
  if (!isExpiring(key, nowMs)) return null
  const { record } = key
  return html`<p class="notice warn"><strong>This key expires ${ago(record.expiresAtMs, nowMs)}.</strong>
    Requests with it are rejected after that.${
      mayChange
        ? html` <a href="${keyPath(record.workspaceId, record.id, 'rotate')}">Rotate it</a> in time to replace it without an outage.`
        : null
    }</p>`
}

/** Both keys of a rotation with their last use, which shows when to finish. */
function rotation(frame: Frame, { key, predecessor, successor, recent }: KeyDetails): Html | null {
  if (successor !== null) {
    return rotationPart(frame, { old: key, fresh: successor, here: key, recentOfOld: recent.key })
  }
  if (predecessor === null) return null
  return rotationPart(frame, { old: predecessor, fresh: key, here: key, recentOfOld: recent.predecessor })
}

interface RotationPart {
  readonly old: KeyView
  readonly fresh: KeyView
  /** The key of this page. */
  readonly here: KeyView
  readonly recentOfOld: RecentUse | null
}

function rotationPart({ mayChange, nowMs }: Frame, { old, fresh, here, recentOfOld }: RotationPart): Html {
  const { workspaceId, id, expiresAtMs } = old.record
  const finish = html`<p>When no client uses the old key any more: <a class="button" href="${keyPath(workspaceId, id, 'finish')}" data-opens="finish-dialog">Finish now</a></p>`
  const until = html`<p>The old key works until ${instant(expiresAtMs)} (${ago(expiresAtMs, nowMs)}).</p>`
  const recent =
    recentOfOld === null || old.state !== 'retiring'
      ? null
      : html`<p>${recentUseText(recentOfOld, nowMs, 'Requests with the old key')}.</p>`
  return html`<section class="card" aria-labelledby="rotation"><h2 id="rotation">Rotation</h2>
    <div class="pair">${side('Old key', old, here, nowMs)}${side('New key', fresh, here, nowMs)}</div>
    ${recent}
    ${old.state === 'retiring' ? html`${until}${mayChange ? finish : null}` : null}
  </section>`
}

function side(label: string, key: KeyView, here: KeyView, nowMs: number): Html {
  const { record } = key
  const hint = hintHtml(record)
  const link = html`<a href="${keyPath(record.workspaceId, record.id)}">${hint}</a>`
  return html`<div><h3>${label}</h3>
    <p>${key === here ? html`${hint} <span class="muted">(this key)</span>` : link} ${stateBadge(key)}</p>
    <p>Last used: ${lastUsed(key, nowMs)}</p>
  </div>`
}

function dialogs(frame: Frame, { key, predecessor, recent }: KeyDetails): Html {
  const isOld = key.state === 'retiring'
  const old = isOld ? key : predecessor
  const recentOfOld = isOld ? recent.key : recent.predecessor
  return html`${stepsFrom(key.state).map(step => stepDialog(frame, { key, step, recent: recent.key }))}${
    old?.state === 'retiring' ? stepDialog(frame, { key: old, step: 'finish', recent: recentOfOld }) : null
  }`
}
