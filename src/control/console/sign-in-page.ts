import type { SignInProblem } from '../sign-in/sign-in-error.ts'
import { type Html, html } from './html.ts'

export interface SignInView {
  /** `provider`: at the configured one. `link`: by the link that the demo printed. `none`: nothing is configured. */
  readonly way: 'provider' | 'link' | 'none'
  /** Where the button leads, with the place to come back to already in it. */
  readonly startPath: string
  /** Why the last attempt failed; null where there was none. */
  readonly problem: SignInProblem | null
}

const PROBLEM: Readonly<Record<SignInProblem, string>> = {
  denied: 'The provider did not let you in. If you did not mean to stop there, sign in again',
  invalid: 'What came back from the provider did not fit, or came too late. Please sign in again',
  unavailable: 'The provider does not answer as it should. Please try again in a moment',
  limited: 'There were too many attempts from your address. Please wait a minute',
}

const LINK_SPENT = 'This link was used before, or is too old. Start the demo again for a new one'

/** The whole page, for whoever is not signed in. */
export function signInPage({ way, startPath, problem }: SignInView): string {
  const text =
    problem === 'invalid' && way === 'link' ? LINK_SPENT : problem === null ? null : PROBLEM[problem]
  return html`<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>Sign in · Postern</title></head>
<body><main><h1>Sign in</h1>
${text === null ? '' : html`<p role="alert">${text}</p>`}
${wayIn(way, startPath)}
</main></body>
</html>
`.toString()
}

function wayIn(way: SignInView['way'], startPath: string): Html {
  switch (way) {
    case 'provider':
      return html`<p><a href="${startPath}">Sign in with your account</a></p>`
    case 'link':
      return html`<p>Open the sign-in link that the demo printed where it was started</p>`
    case 'none':
      return html`<p>Signing in is not set up here: whoever runs this console sets console.oidc.issuer</p>`
  }
}
