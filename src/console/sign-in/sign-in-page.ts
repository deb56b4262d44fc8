import { type Html, html } from '../platform/html/html.ts'
import { barePage } from '../platform/html/layout.ts'
import type { SignInProblem } from './sign-in-error.ts'

export interface SignInView {
  /** `provider`: the configured one. `link`: the link that the demo printed. `none`: not configured. */
  readonly way: 'provider' | 'link' | 'none'
  /** Where the button leads, including the path to return to. */
  readonly startPath: string
  /** Why the last attempt failed; null if there was none. */
  readonly problem: SignInProblem | null
}

const PROBLEMS: Readonly<Record<SignInProblem, string | Html>> = {
  denied: 'The sign-in provider denied access. If you cancelled by accident, sign in again.',
  invalid: 'The sign-in provider’s response was invalid or too late. Sign in again.',
  unavailable: 'The sign-in provider is unavailable. Try again in a moment.',
  client_rejected: html`Signing in failed: the provider rejected the client's credentials, which are those of this console. Its operator must correct them; the console log names the settings to check.`,
  limited: 'Too many sign-in attempts from your address. Wait one minute, then try again.',
}
const USED_LINK = 'This link was already used or has expired. Restart the demo for a new one.'

export function signInPage({ way, startPath, problem }: SignInView): string {
  const text =
    problem === 'invalid' && way === 'link' ? USED_LINK : problem === null ? null : PROBLEMS[problem]
  const main = html`<h1>Sign in</h1>
    <p class="lead">Issue, rotate and revoke the API keys of your workspaces.</p>
    ${text === null ? null : html`<p class="notice bad" role="alert">${text}</p>`}
    ${signInOptions(way, startPath)}`
  return barePage('Sign in', main).toString()
}

function signInOptions(way: SignInView['way'], startPath: string): Html {
  switch (way) {
    case 'provider':
      return html`<a class="button primary" href="${startPath}">Sign in with your account</a>`
    case 'link':
      return html`<p class="notice">Open the sign-in link that the demo printed in its terminal.</p>`
    case 'none':
      return html`<p class="notice">Sign-in is not configured. The operator of this console must set <code>console.oidc.issuer</code> and <code>console.publicUrl</code>.</p>`
  }
}
