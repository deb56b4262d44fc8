import type { SignInProblem } from '../../sign-in/sign-in-error.ts'
import { type Html, html } from '../layout/html.ts'
import { barePage } from '../layout/layout.ts'

export interface SignInView {
  /** `provider`: at the configured one. `link`: by the link that the demo printed. `none`: nothing is configured. */
  readonly way: 'provider' | 'link' | 'none'
  /** Where the button leads, with the place to come back to already in it. */
  readonly startPath: string
  /** Why the last attempt failed; null where there was none. */
  readonly problem: SignInProblem | null
}

const PROBLEMS: Readonly<Record<SignInProblem, string>> = {
  denied: 'The sign-in provider let nobody in. If you stopped there by accident, sign in again.',
  invalid: 'The answer of the sign-in provider did not fit, or came too late. Please sign in again.',
  unavailable: 'The sign-in provider does not answer as it should. Please try again in a moment.',
  limited: 'There were many attempts from your address. Please wait a minute, then try again.',
}
const LINK_SPENT = 'This link was used before, or is too old. Start the demo again for a new one.'

/** The whole page, for whoever is not signed in. */
export function signInPage({ way, startPath, problem }: SignInView): string {
  const text =
    problem === 'invalid' && way === 'link' ? LINK_SPENT : problem === null ? null : PROBLEMS[problem]
  const main = html`<h1>Sign in</h1>
    <p class="lead">Issue, rotate and revoke the API keys of your workspaces.</p>
    ${text === null ? null : html`<p class="notice bad" role="alert">${text}</p>`}
    ${wayIn(way, startPath)}`
  return barePage('Sign in', main).toString()
}

function wayIn(way: SignInView['way'], startPath: string): Html {
  switch (way) {
    case 'provider':
      return html`<a class="button primary" href="${startPath}">Sign in with your account</a>`
    case 'link':
      return html`<p class="notice">Open the sign-in link that the demo printed where it was started.</p>`
    case 'none':
      return html`<p class="notice">Signing in is not set up here. Whoever runs this console sets <code>console.oidc.issuer</code> and <code>console.publicUrl</code>.</p>`
  }
}
