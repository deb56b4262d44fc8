import type { AdminToken } from '../platform/access/admin-token.ts'
import { type Html, hintHtml, html, markInvisible } from '../platform/html/html.ts'
import { type Frame, page } from '../platform/html/layout.ts'
import { TOKEN_MADE, TOKENS } from '../platform/html/paths.ts'
import { TITLE, tokenFacts } from './token-view.ts'

/** Answers the form, so that no address leads back to the secret; the script puts another one into the history. */
export function secretPage(frame: Frame, token: AdminToken, secret: string): Html {
  const main = html`<h1>Your new admin token</h1>
    <p class="lead">${markInvisible(token.name)}, ${hintHtml(token)}</p>
    <section class="card once" data-secret data-then="${TOKEN_MADE}" aria-labelledby="secret-title">
      <h2 id="secret-title">Copy the secret now</h2>
      <p class="notice warn"><strong>It is shown only once.</strong> Postern stores only its digest. If you lose the secret, revoke the token and make another.</p>
      <div class="copyable">
        <code id="secret" class="secret" tabindex="0" aria-label="Secret">${secret}</code>
        <button type="button" data-copies="secret" hidden>Copy</button>
      </div>
    </section>
    <section class="card"><h2>Details</h2>${tokenFacts(token, frame.nowMs)}</section>
    <p class="actions"><a class="button primary" href="${TOKENS}">I have saved it</a></p>`
  return page(frame, { title: 'Copy the secret', section: null, main })
}

/** For a form that was submitted twice, and for going back or reloading: the token exists, its secret is gone. */
export function alreadyMadePage(frame: Frame): Html {
  const main = html`<h1>Token already made</h1>
    <div class="card">
      <p>Its secret was shown once and is no longer available. Reloading a page or going back makes no other token.</p>
      <p>If you did not save the secret, revoke the token and make another.</p>
      <p class="actions"><a class="button primary" href="${TOKENS}">${TITLE}</a></p>
    </div>`
  return page(frame, { title: 'Already made', section: null, main })
}
