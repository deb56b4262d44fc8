import type { KeyRecord } from '../../../domain/key/key-record.ts'
import {
  type CodeExample,
  codeExampleList,
  codeExamples,
  firstEndpoint,
  UNKNOWN_ADDRESS,
} from '../../platform/html/code-examples.ts'
import { ago, type Html, html, instant } from '../../platform/html/html.ts'
import { hintHtml, nameHtml } from '../../platform/html/key-names.ts'
import { type Frame, page } from '../../platform/html/layout.ts'
import { keyPath, keysPath } from '../../platform/html/paths.ts'
import type { ChangeProgress } from '../operations/change-progress.ts'
import { changeSteps } from './change-steps.ts'
import { facts, type KeyView } from './key-parts.ts'
import type { KeyPageParts } from './key-request.ts'

interface SecretView {
  readonly key: KeyView
  readonly secret: string
  /** Programs that use the key. */
  readonly examples: readonly CodeExample[]
  /** Whether the examples hold a placeholder for the API's URL. */
  readonly needsAddress: boolean
  /** The key that this one replaces; null if it replaces none. */
  readonly replaced: ReplacedView | null
}

interface ReplacedView {
  readonly key: KeyView
  /** Shown if the rotation revoked the key. */
  readonly revocation: ChangeProgress
}

/** A secret with examples that use it. */
export function shownSecret(
  { routes, gatewayUrl }: KeyPageParts,
  record: KeyRecord,
  secret: string,
): Pick<SecretView, 'secret' | 'examples' | 'needsAddress'> {
  const examples = codeExamples(firstEndpoint(record, routes, gatewayUrl))
  return { secret, examples, needsAddress: gatewayUrl === null }
}

/**
 * The only page that shows a secret. It answers a form, so that no URL leads back to it; the script puts the URL of another
 * page into the history.
 */
export function secretPage(frame: Frame, view: SecretView): Html {
  const { key, secret, examples, needsAddress } = view
  const { record } = key
  const main = html`<h1>${view.replaced === null ? 'Your new key' : 'Key rotated'}</h1>
    <p class="lead">${nameHtml(record)}, ${hintHtml(record)}</p>
    <section class="card once" data-secret data-then="${keyPath(record.workspaceId, record.id, 'issued')}" aria-labelledby="secret-title">
      <h2 id="secret-title">Copy the secret now</h2>
      <p class="notice warn"><strong>It is shown only once.</strong> Postern stores only its digest. If you lose the secret, rotate the key.</p>
      <div class="copyable">
        <code id="secret" class="secret" tabindex="0" aria-label="Secret">${secret}</code>
        <button type="button" data-copies="secret" hidden>Copy</button>
      </div>
    </section>
    <section class="card" aria-labelledby="try"><h2 id="try">Try it</h2>
      ${codeExampleList(examples)}
      ${needsAddress ? html`<p class="hint">Replace <code>${UNKNOWN_ADDRESS}</code> with the URL of the API.</p>` : null}
    </section>
    ${replacedPart(view, frame.nowMs)}
    <section class="card"><h2>Details</h2>${facts(key, frame.nowMs, frame.personName)}</section>
    <p class="actions"><a class="button primary" href="${keyPath(record.workspaceId, record.id)}">I have saved it</a></p>`
  return page(frame, { title: 'Copy the secret', section: 'keys', main })
}

function replacedPart({ replaced }: SecretView, nowMs: number): Html | null {
  if (replaced === null) return null
  const { key, revocation } = replaced
  const { record, state } = key
  const retires = state === 'retiring'
  const link = keyPath(record.workspaceId, record.id)
  const until = html`It works until ${instant(record.expiresAtMs)} (${ago(record.expiresAtMs, nowMs)}).`
  return html`<section class="card"><h2>The old key</h2>
    <p>${hintHtml(record)}: ${retires ? until : state === 'revoked' ? 'It is revoked.' : 'It has expired.'}</p>
    <p><a href="${link}">${retires ? 'See when it was last used, or finish the rotation' : 'Show the old key'}</a></p>
  </section>
  ${state === 'revoked' ? changeSteps(revocation) : null}`
}

/** For a form that was submitted twice, and for going back or reloading: the key exists, its secret is gone. */
export function alreadyDonePage(frame: Frame, key: Pick<KeyView, 'record'>): Html {
  const { record } = key
  const main = html`<h1>Key already issued</h1>
    <p class="lead">${nameHtml(record)}, ${hintHtml(record)}</p>
    <div class="card">
      <p>Its secret was shown once and is no longer available. Reloading a page or going back issues no other key.</p>
      <p>If you did not save the secret, rotate the key to get a new one, or revoke it and issue another.</p>
      <p class="actions"><a class="button primary" href="${keyPath(record.workspaceId, record.id)}">Show the key</a> <a href="${keysPath(record.workspaceId)}">All keys</a></p>
    </div>`
  return page(frame, { title: 'Already issued', section: 'keys', main })
}
