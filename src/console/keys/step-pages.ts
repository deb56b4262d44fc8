import type { FastifyInstance, FastifyReply } from 'fastify'
import type { FinalState } from '../../domain/key/key-record.ts'
import { confirmForm } from '../platform/html/form-parts.ts'
import { ago, type Html, hintHtml, html, nameHtml, type Piece } from '../platform/html/html.ts'
import { type Frame, page } from '../platform/html/layout.ts'
import { problemPage } from '../platform/html/page-errors.ts'
import {
  CHANGE_FORMS,
  CHANGES,
  createFrame,
  notFound,
  SHOWS,
  sendPage,
} from '../platform/html/page-request.ts'
import { keyPath, keysPath, WORKSPACES } from '../platform/html/paths.ts'
import { describeCaller } from '../platform/http/request-context.ts'
import { lastUseWarning, type RecentUse, readRecentUse } from '../usage/index.ts'
import { type KeyPageParts, type KeyView, readKeyView, requireKey, viewAfter } from './key-view.ts'
import {
  type ChangeProgress,
  changeSteps,
  isWatched,
  looksAgainNote,
  REFRESH_SECONDS,
  readChangeProgress,
  readLastProgress,
} from './operations/change-progress.ts'
import { changeState, type StateStep, stepsFrom } from './operations/key-operations.ts'
import type { Registry } from './operations/registry.ts'

interface StepPage {
  /** What it does. */
  readonly step: StateStep
  readonly title: string
  readonly button: string
  readonly lead: string
  readonly done: string
  readonly unchanged: string
}

const REVOCATION = {
  step: 'revoke',
  done: 'Key revoked',
  unchanged: 'Nothing changed: the key had already been revoked or had expired.',
} as const

/** Changes of a key's state. `finish` revokes the old key of a rotation. */
const STEPS = {
  revoke: {
    ...REVOCATION,
    title: 'Revoke key',
    button: 'Revoke now',
    lead: 'All gateways reject it within one second. This cannot be undone.',
  },
  finish: {
    ...REVOCATION,
    title: 'Finish rotation',
    button: 'Revoke the old key now',
    lead: 'All gateways reject the old key within one second. This cannot be undone. The new key keeps working.',
  },
  suspend: {
    step: 'suspend',
    title: 'Suspend key',
    button: 'Suspend now',
    lead: 'All gateways reject it within one second, until you resume it. Its expiry does not change.',
    done: 'Key suspended',
    unchanged: 'Nothing changed: the key was already suspended.',
  },
  resume: {
    step: 'resume',
    title: 'Resume key',
    button: 'Resume now',
    lead: 'Gateways accept it again, until it expires or is revoked.',
    done: 'Key resumed',
    unchanged: 'Nothing changed: the key was not suspended.',
  },
} as const satisfies Readonly<Record<StateStep | 'finish', StepPage>>

export type KeyStep = keyof typeof STEPS
// `Object.keys` forgets the type of a closed record's keys.
const KEY_STEPS = Object.keys(STEPS) as readonly KeyStep[]

export function stepRoutes(scope: FastifyInstance, sources: KeyPageParts): void {
  for (const step of KEY_STEPS) {
    const path = `${WORKSPACES}/:workspaceId/keys/:keyId/${step}`
    scope.get(path, CHANGE_FORMS, (_, reply) => showConfirmation(sources, reply, step))
    scope.post(path, CHANGES, (_, reply) => change(sources, reply, step))
  }
  scope.get(`${WORKSPACES}/:workspaceId/keys/:keyId/progress`, SHOWS, (_, reply) =>
    showProgress(sources, reply),
  )
}

/** Redirects if the key is in no state for this step. */
async function showConfirmation(
  sources: KeyPageParts,
  reply: FastifyReply,
  step: KeyStep,
): Promise<FastifyReply> {
  const { registry } = sources
  const { record } = await requireKey(reply.request, registry)
  const { workspaceId, id } = record
  const key = await readKeyView(record, registry)
  const isOffered = step === 'finish' ? key.state === 'retiring' : stepsFrom(key.state).includes(step)
  if (!isOffered) return reply.redirect(keyPath(workspaceId, id), 303)
  const frame = createFrame(reply, { workspaceId, clock: registry.clock })
  const recent = await readRecentUse(sources, record)
  return sendPage(reply, stepPage(frame, { key, step, recent }))
}

/** Idempotent: a second request shows the same page. */
async function change({ registry }: KeyPageParts, reply: FastifyReply, step: KeyStep): Promise<FastifyReply> {
  const { record } = await requireKey(reply.request, registry)
  const frame = createFrame(reply, { workspaceId: record.workspaceId, clock: registry.clock })
  const context = { caller: describeCaller(reply.request), idempotency: null }
  const before = await readKeyView(record, registry)
  const result = await changeState(registry, STEPS[step].step, record.id, context)
  if (result.kind === 'final') return rejectFinal(registry, reply, { ...record, state: result.state })
  if (result.kind !== 'done') throw notFound()
  const progress = await readChangeProgress(registry, result, true)
  const key = viewAfter(result.record, before, registry)
  return sendPage(reply, stepDonePage(frame, step, { key, changed: result.changed, progress }))
}

/** The page of a change that was made before. */
async function showProgress({ registry }: KeyPageParts, reply: FastifyReply): Promise<FastifyReply> {
  const stored = await requireKey(reply.request, registry)
  const { record } = stored
  const progress = await readLastProgress(registry, stored)
  if (progress === null) return reply.redirect(keyPath(record.workspaceId, record.id), 303)
  const frame = createFrame(reply, { workspaceId: record.workspaceId, clock: registry.clock })
  const step = record.revokedAtMs !== null ? 'revoke' : record.suspendedAtMs !== null ? 'suspend' : 'resume'
  const key = viewAfter(record, null, registry)
  return sendPage(reply, stepDonePage(frame, step, { key, changed: true, progress }))
}

const FINAL_TEXTS: Readonly<Record<FinalState, string>> = {
  expired: 'It has expired, which is final. Issue a new key instead.',
  revoked: 'It was revoked, which is final. Issue a new key instead.',
}

/** Answers that a key which has ended can no longer be changed. */
export function rejectFinal(
  { clock }: Registry,
  reply: FastifyReply,
  { workspaceId, state }: { readonly workspaceId: string; readonly state: FinalState },
): FastifyReply {
  const frame = createFrame(reply, { workspaceId, clock })
  const problem = { title: 'Key cannot be changed', text: FINAL_TEXTS[state], requestId: null }
  return sendPage(reply, problemPage(frame, problem), 409)
}

interface StepView {
  readonly key: KeyView
  readonly step: KeyStep
  /** Null if it is not known. */
  readonly recent: RecentUse | null
}

/** Asks for confirmation and shows the last use. */
function stepPage(frame: Frame, view: StepView): Html {
  const { key, step } = view
  const { record } = key
  const { title, lead } = STEPS[step]
  const main = html`<p class="back"><a href="${keyPath(record.workspaceId, record.id)}">${nameHtml(record)}</a></p>
    <h1>${title}</h1>
    <p class="lead">${nameHtml(record)}, ${hintHtml(record)}. ${lead}</p>
    <div class="card">${stepForm(frame, view)}</div>`
  return page(frame, { title, section: 'keys', main })
}

/** The same question on the page of the key; the script opens it. */
export function stepDialog(frame: Frame, view: StepView): Html {
  const { key, step } = view
  const { title, lead } = STEPS[step]
  return html`<dialog id="${step}-dialog" aria-labelledby="${step}-title">
    <h2 id="${step}-title">${title}</h2>
    <p>${nameHtml(key.record)}, ${hintHtml(key.record)}. ${lead}</p>
    ${stepForm(frame, view)}
  </dialog>`
}

function stepForm(frame: Frame, { key, step, recent }: StepView): Html {
  const { workspaceId, id } = key.record
  const resumes = step === 'resume'
  return confirmForm(frame, {
    action: keyPath(workspaceId, id, step),
    about: resumes ? suspendedSince(key, frame.nowMs) : lastUseWarning(key, recent, frame.nowMs),
    button: STEPS[step].button,
    isHarmless: resumes,
    keep: resumes ? 'Keep it suspended' : 'Keep it',
    keepPath: keyPath(workspaceId, id),
  })
}

function suspendedSince({ record }: KeyView, nowMs: number): Piece {
  const { suspendedAtMs } = record
  return suspendedAtMs === null ? null : html`<p>It was suspended ${ago(suspendedAtMs, nowMs)}.</p>`
}

interface StepDoneView {
  readonly key: KeyView
  /** Whether this request changed the key. */
  readonly changed: boolean
  readonly progress: ChangeProgress
}

function stepDonePage(frame: Frame, step: KeyStep, view: StepDoneView): Html {
  const { key, changed, progress } = view
  const { record, state } = key
  const title = state === 'expired' ? 'Key already expired' : STEPS[step].done
  const path = keyPath(record.workspaceId, record.id, 'progress')
  const watched = isWatched(progress, frame.nowMs) ? path : null
  const main = html`<p class="back"><a href="${keysPath(record.workspaceId)}">Keys</a></p>
    <h1>${title}</h1>
    <p class="lead">${nameHtml(record)}, ${hintHtml(record)}</p>
    ${changed ? null : html`<p class="notice">${STEPS[step].unchanged}</p>`}
    ${progress.committedAtMs === null ? null : changeSteps(progress, watched)}
    ${looksAgainNote(watched)}
    <p class="actions"><a class="button primary" href="${keysPath(record.workspaceId)}">All keys</a> <a href="${keyPath(record.workspaceId, record.id)}">Show this key</a></p>`
  const next = watched === null ? null : { path: watched, seconds: REFRESH_SECONDS }
  return page(frame, { title, section: 'keys', main, next })
}
