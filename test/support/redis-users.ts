/** The rights of Postern's two users, as docs/redis.md tells operators to grant them; each is needed, and no other. */
const GATEWAY = ['~postern:key:*', '&postern:keys:changed', '-@all', '+getrange', '+subscribe']
const CONSOLE = ['~postern:key:*', '&postern:keys:changed', '-@all', '+getrange', '+set', '+eval', '+publish']
/** How a client learns which node holds what. */
const IN_A_CLUSTER = ['+cluster|slots', '+readonly', '+readwrite', '+client|setname']

export const GATEWAY_RIGHTS = {
  standalone: GATEWAY,
  sentinel: GATEWAY,
  cluster: [...GATEWAY, ...IN_A_CLUSTER],
}
export const CONSOLE_RIGHTS = {
  standalone: CONSOLE,
  sentinel: CONSOLE,
  cluster: [...CONSOLE, ...IN_A_CLUSTER],
}
/** Of the gateway, and only where rate limits are configured. */
export const LIMIT_RIGHTS = ['~postern:limit:*', '+eval', '+evalsha', '+set', '+incrby', '+pttl']
/** Of both, at the Sentinels. */
export const SENTINEL_RIGHTS = ['-@all', '+sentinel|get-master-addr-by-name']

export interface User {
  readonly username: string
  readonly password: string
}

export const GATEWAY_USER: User = { username: 'gateway', password: 'the-password-of-the-gateway' }
export const CONSOLE_USER: User = { username: 'console', password: 'the-password-of-the-console' }
export const SENTINEL_USER: User = { username: 'postern', password: 'the-password-at-the-sentinels' }

/** Rights that are for each other alone: what may be written is no record of a key. */
export function selectorOf(rights: readonly string[]): string {
  return `(${rights.join(' ')})`
}
