import type { RevocationProgress } from '../../registry/operations/revocation-progress.ts'
import { type Html, html } from '../layout/html.ts'
import { type Frame, page } from '../layout/layout.ts'
import { markInvisible } from '../layout/mark-invisible.ts'
import { keyPath, keysPath } from '../layout/paths.ts'
import { ago, instant } from '../layout/times.ts'
import { facts, hintOf, type KeyView } from './key-parts.ts'
import { revocationSteps } from './revocation-steps.ts'

export interface SecretView {
  readonly key: KeyView
  readonly secret: string
  /** A command that uses the key, as it stands. */
  readonly command: string
  /** Whether the command names an address that somebody has to fill in. */
  readonly needsAddress: boolean
  /** The key that this one succeeds; null where it succeeds none. */
  readonly replaced: ReplacedView | null
}

export interface ReplacedView {
  readonly key: KeyView
  /** Shown where the rotation has revoked the key. */
  readonly revocation: RevocationProgress
}

/** The one page that ever shows a secret. It is the answer to a form, so that no address leads back to it. */
export function secretPage(frame: Frame, view: SecretView): Html {
  const { key, secret, command, needsAddress } = view
  const { record } = key
  const main = html`<h1>${view.replaced === null ? 'Your new key' : 'The successor of your key'}</h1>
    <p class="lead">${markInvisible(record.name)}, ${hintOf(record)}</p>
    <section class="card once" data-secret aria-labelledby="secret-title">
      <h2 id="secret-title">Copy the secret now</h2>
      <p class="notice warn"><strong>It is shown this once.</strong> Postern keeps only a digest of it, so nobody can show it to you again. If it gets lost, rotate the key.</p>
      <div class="copyable">
        <code id="secret" class="secret" tabindex="0" aria-label="Secret">${secret}</code>
        <button type="button" data-copies="secret" hidden>Copy</button>
      </div>
      <h3>Try it</h3>
      <div class="copyable">
        <pre tabindex="0" aria-label="Command that uses the key"><code id="command">${command}</code></pre>
        <button type="button" data-copies="command" hidden>Copy</button>
      </div>
      ${needsAddress ? html`<p class="hint">Put the address of the API in place of <code>$API</code>.</p>` : null}
    </section>
    ${replacedPart(view, frame.nowMs)}
    <section class="card"><h2>What it is</h2>${facts(key, frame.nowMs)}</section>
    <p class="actions"><a class="button primary" href="${keyPath(record.workspaceId, record.id)}">I have stored it</a></p>`
  return page(frame, { title: 'Copy the secret', section: 'keys', main })
}

function replacedPart({ replaced }: SecretView, nowMs: number): Html | null {
  if (replaced === null) return null
  const { key, revocation } = replaced
  const { record, state } = key
  const retires = state === 'retiring'
  const link = keyPath(record.workspaceId, record.id)
  const until = html`It works until ${instant(record.expiresAtMs)} (${ago(record.expiresAtMs, nowMs)}), so that you can replace it without a gap.`
  return html`<section class="card"><h2>The old key</h2>
    <p>${hintOf(record)}: ${retires ? until : state === 'revoked' ? 'It is revoked.' : 'It has expired.'}</p>
    <p><a href="${link}">${retires ? 'See when it was last used, and finish when nothing uses it any more' : 'Show the old key'}</a></p>
  </section>
  ${state === 'revoked' ? revocationSteps(revocation) : null}`
}

/** For a form that was sent twice, as on reloading: the key is there, and its secret is gone. */
export function alreadyDonePage(frame: Frame, key: KeyView): Html {
  const { record } = key
  const main = html`<h1>This key was issued already</h1>
    <p class="lead">${markInvisible(record.name)}, ${hintOf(record)}</p>
    <div class="card">
      <p>The form was sent a second time, as happens on reloading the page. There is still one key, and its secret was shown after the first time.</p>
      <p>If you have not stored the secret, rotate the key to get a new one, or revoke it and issue another.</p>
      <p class="actions"><a class="button primary" href="${keyPath(record.workspaceId, record.id)}">Show the key</a> <a href="${keysPath(record.workspaceId)}">All keys</a></p>
    </div>`
  return page(frame, { title: 'Issued already', section: 'keys', main })
}
