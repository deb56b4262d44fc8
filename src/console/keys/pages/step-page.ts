import { confirmForm } from '../../platform/html/confirm-form.ts'
import { type Html, html, type Piece } from '../../platform/html/html.ts'
import { hintHtml, nameHtml } from '../../platform/html/key-names.ts'
import { type Frame, page } from '../../platform/html/layout.ts'
import { keyPath, keysPath } from '../../platform/html/paths.ts'
import { ago } from '../../platform/html/times.ts'
import type { RecentUse } from '../../usage/index.ts'
import type { ChangeProgress } from '../operations/change-progress.ts'
import { changeSteps } from './change-steps.ts'
import { type KeyView, lastUseWarning } from './key-parts.ts'

/** Changes of a key's state. `finish` revokes the old key of a rotation. */
export const KEY_STEPS = ['revoke', 'finish', 'suspend', 'resume'] as const
export type KeyStep = (typeof KEY_STEPS)[number]

interface StepTexts {
  readonly title: string
  readonly button: string
  readonly lead: string
  readonly done: string
}

export const STEP_TEXTS: Readonly<Record<KeyStep, StepTexts>> = {
  revoke: {
    title: 'Revoke key',
    button: 'Revoke now',
    lead: 'All gateways reject it within one second. This cannot be undone.',
    done: 'Key revoked',
  },
  finish: {
    title: 'Finish rotation',
    button: 'Revoke the old key now',
    lead: 'All gateways reject the old key within one second. This cannot be undone. The new key keeps working.',
    done: 'Key revoked',
  },
  suspend: {
    title: 'Suspend key',
    button: 'Suspend now',
    lead: 'All gateways reject it within one second, until you resume it. Its expiry does not change.',
    done: 'Key suspended',
  },
  resume: {
    title: 'Resume key',
    button: 'Resume now',
    lead: 'Gateways accept it again, until it expires or is revoked.',
    done: 'Key resumed',
  },
}

export interface StepView {
  readonly key: KeyView
  readonly step: KeyStep
  /** Null if it is not known. */
  readonly recent: RecentUse | null
}

/** Asks for confirmation and shows the last use. */
export function stepPage(frame: Frame, view: StepView): Html {
  const { key, step } = view
  const { record } = key
  const { title, lead } = STEP_TEXTS[step]
  const main = html`<p class="back"><a href="${keyPath(record.workspaceId, record.id)}">${nameHtml(record)}</a></p>
    <h1>${title}</h1>
    <p class="lead">${nameHtml(record)}, ${hintHtml(record)}. ${lead}</p>
    <div class="card">${stepForm(frame, view)}</div>`
  return page(frame, { title, section: 'keys', main })
}

/** The same question on the page of the key; the script opens it. */
export function stepDialog(frame: Frame, view: StepView): Html {
  const { key, step } = view
  const { title, lead } = STEP_TEXTS[step]
  return html`<dialog id="${step}-dialog" aria-labelledby="${step}-title">
    <h2 id="${step}-title">${title}</h2>
    <p>${nameHtml(key.record)}, ${hintHtml(key.record)}. ${lead}</p>
    ${stepForm(frame, view)}
  </dialog>`
}

function stepForm(frame: Frame, { key, step, recent }: StepView): Html {
  const { workspaceId, id } = key.record
  return confirmForm(frame, {
    action: keyPath(workspaceId, id, step),
    about: step === 'resume' ? suspendedSince(key, frame.nowMs) : lastUseWarning(key, recent, frame.nowMs),
    button: STEP_TEXTS[step].button,
    keepPath: keyPath(workspaceId, id),
  })
}

function suspendedSince({ record }: KeyView, nowMs: number): Piece {
  const { suspendedAtMs } = record
  return suspendedAtMs === null ? null : html`<p>It was suspended ${ago(suspendedAtMs, nowMs)}.</p>`
}

export interface StepDoneView {
  readonly key: KeyView
  /** Whether this request changed the key. */
  readonly changed: boolean
  readonly progress: ChangeProgress
}

export function stepDonePage(frame: Frame, step: KeyStep, view: StepDoneView): Html {
  const { key, changed, progress } = view
  const { record, state } = key
  const title = state === 'expired' ? 'Key already expired' : STEP_TEXTS[step].done
  const main = html`<p class="back"><a href="${keysPath(record.workspaceId)}">Keys</a></p>
    <h1>${title}</h1>
    <p class="lead">${nameHtml(record)}, ${hintHtml(record)}</p>
    ${changed ? null : html`<p class="notice">${UNCHANGED[step]}</p>`}
    ${progress.committedAtMs === null ? null : changeSteps(progress)}
    <p class="actions"><a class="button primary" href="${keysPath(record.workspaceId)}">All keys</a> <a href="${keyPath(record.workspaceId, record.id)}">Show this key</a></p>`
  return page(frame, { title, section: 'keys', main })
}

const UNCHANGED: Readonly<Record<KeyStep, string>> = {
  revoke: 'Nothing changed: the key had already been revoked or had expired.',
  finish: 'Nothing changed: the key had already been revoked or had expired.',
  suspend: 'Nothing changed: the key was already suspended.',
  resume: 'Nothing changed: the key was not suspended.',
}
