import type { Config } from './schema.ts'
import type { Mistake } from './sources.ts'

const ON_THIS_MACHINE = new Set(['localhost', '127.0.0.1', '[::1]'])

/** What signing in needs to be safe; each a sentence that says what to set. */
export function checkSignIn({ publicUrl, oidc, session }: Config['console']): Mistake[] {
  const mistakes: Mistake[] = []
  const add = (spelling: string, problem: string) => mistakes.push({ spelling, problem })
  if (publicUrl !== undefined) {
    if (!isProtected(publicUrl)) add('console.publicUrl', `must be https: ${BECAUSE_OF_COOKIES}`)
    if (new URL(publicUrl).pathname !== '/') add('console.publicUrl', 'must be without a path')
  }
  if (oidc.issuer !== undefined) {
    if (!isProtected(oidc.issuer)) add('console.oidc.issuer', 'must be https (http only on this machine)')
    if (oidc.clientId === undefined) add('console.oidc.clientId', 'is required with console.oidc.issuer')
    if (publicUrl === undefined) {
      add(
        'console.publicUrl',
        'is required with console.oidc.issuer: where the provider sends people back to',
      )
    }
  } else if (oidc.clientId !== undefined) {
    add('console.oidc.issuer', 'is required with console.oidc.clientId: the provider that people sign in at')
  }
  if (session.idleSeconds > session.absoluteSeconds) {
    add('console.session.idleSeconds', 'is longer than console.session.absoluteSeconds')
  }
  return mistakes
}

const BECAUSE_OF_COOKIES = 'over http anybody on the way could take a session (http only on this machine)'

function isProtected(address: string): boolean {
  const { protocol, hostname } = new URL(address)
  return protocol === 'https:' || ON_THIS_MACHINE.has(hostname)
}
