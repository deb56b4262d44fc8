import type { FastifyReply } from 'fastify'
import type { KeyRecord } from '../../domain/key/key-record.ts'
import {
  codeExampleList,
  codeExamples,
  firstEndpoint,
  UNKNOWN_ADDRESS,
} from '../platform/html/code-examples.ts'
import { describeRejectedField, type ShownForm } from '../platform/html/form-parts.ts'
import { ago, type Html, hintHtml, html, instant, nameHtml, secretCard } from '../platform/html/html.ts'
import { type Frame, page } from '../platform/html/layout.ts'
import { createFrame, FORM_NOTICES, notFound, sendPage } from '../platform/html/page-request.ts'
import { keyPath, keysPath } from '../platform/html/paths.ts'
import { facts } from './key-form.ts'
import { type KeyPageParts, type KeyView, viewAfter } from './key-view.ts'
import {
  type ChangeProgress,
  changeSteps,
  isWatched,
  readChangeProgress,
} from './operations/change-progress.ts'
import type { OperationRejection, OperationSuccess } from './operations/registry.ts'

/** Why a form that was valid is shown again. */
export function explainRejection(rejection: OperationRejection): Omit<ShownForm<unknown>, 'form'> {
  switch (rejection.kind) {
    case 'invalid':
      return { problems: describeRejectedField(rejection) }
    case 'other_request':
      return { notice: FORM_NOTICES.reused }
    case 'unknown_key':
      throw notFound()
    case 'not_active':
    case 'final':
    case 'other_version':
      throw new Error(`A new key was rejected as ${rejection.kind}`)
  }
}

/** Answers the form with the secret; a form that was submitted before, without. @param before the key that is replaced */
export async function sendSecret(
  sources: KeyPageParts,
  reply: FastifyReply,
  done: OperationSuccess,
  before: KeyView | null,
): Promise<FastifyReply> {
  const { registry } = sources
  const { record, replaced, secret } = done
  reply.request.keyId ??= record.id
  const frame = createFrame(reply, { workspaceId: record.workspaceId, clock: registry.clock })
  if (secret === null) return sendPage(reply, alreadyDonePage(frame, record))
  const old = replaced && {
    key: viewAfter(replaced.record, before, registry),
    revocation: await readChangeProgress(registry, done, true),
  }
  const key = viewAfter(record, null, registry)
  return sendPage(reply, secretPage(frame, { key, secret: secret.reveal(), replaced: old }, sources))
}

interface SecretView {
  readonly key: KeyView
  readonly secret: string
  /** The key that this one replaces; null if it replaces none. */
  readonly replaced: ReplacedView | null
}

interface ReplacedView {
  readonly key: KeyView
  /** Shown if the rotation revoked the key. */
  readonly revocation: ChangeProgress
}

/** The only page that shows the secret of a key. */
function secretPage(
  frame: Frame,
  { key, secret, replaced }: SecretView,
  { routes, gatewayUrl }: KeyPageParts,
): Html {
  const { record } = key
  const examples = codeExamples(firstEndpoint(record, routes, gatewayUrl))
  const advice = 'Postern stores only its digest. If you lose the secret, rotate the key.'
  const main = html`<h1>${replaced === null ? 'Your new key' : 'Key rotated'}</h1>
    <p class="lead">${nameHtml(record)}, ${hintHtml(record)}</p>
    ${secretCard(secret, { back: keyPath(record.workspaceId, record.id, 'issued'), advice })}
    <section class="card" aria-labelledby="try"><h2 id="try">Try it</h2>
      ${codeExampleList(examples)}
      ${gatewayUrl === null ? html`<p class="hint">Replace <code>${UNKNOWN_ADDRESS}</code> with the URL of the API.</p>` : null}
    </section>
    ${replaced === null ? null : replacedPart(replaced, frame.nowMs)}
    <section class="card"><h2>Details</h2>${facts(key, frame.nowMs, frame.personName)}</section>
    <p class="actions"><a class="button primary" href="${keyPath(record.workspaceId, record.id)}">I have saved it</a></p>`
  return page(frame, { title: 'Copy the secret', section: 'keys', main })
}

function replacedPart({ key: { record, state }, revocation }: ReplacedView, nowMs: number): Html {
  const retires = state === 'retiring'
  const link = keyPath(record.workspaceId, record.id)
  const until = html`works until ${instant(record.expiresAtMs)} (${ago(record.expiresAtMs, nowMs)}).`
  return html`<section class="card"><h2>The old key</h2>
    <p>${hintHtml(record)} ${retires ? until : state === 'revoked' ? 'is revoked.' : 'has expired.'}</p>
    <p><a href="${link}">${retires ? 'See when it was last used, or finish the rotation' : 'Show the old key'}</a></p>
  </section>
  ${state === 'revoked' ? changeSteps(revocation, isWatched(revocation, nowMs) ? keyPath(record.workspaceId, record.id, 'progress') : null) : null}`
}

/** For a form that was submitted twice, and for going back or reloading: the key exists, its secret is gone. */
export function alreadyDonePage(frame: Frame, record: KeyRecord): Html {
  const main = html`<h1>Key already issued</h1>
    <p class="lead">${nameHtml(record)}, ${hintHtml(record)}</p>
    <div class="card">
      <p>Its secret was shown once and is no longer available. Reloading a page or going back issues no other key.</p>
      <p>If you did not save the secret, rotate the key to get a new one, or revoke it and issue another.</p>
      <p class="actions"><a class="button primary" href="${keyPath(record.workspaceId, record.id)}">Show the key</a> <a href="${keysPath(record.workspaceId)}">All keys</a></p>
    </div>`
  return page(frame, { title: 'Already issued', section: 'keys', main })
}
