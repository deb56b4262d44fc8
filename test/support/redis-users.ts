/** The rights of Postern's two users, as documented in docs/redis.md. Each of them is necessary. */
const GATEWAY = ['~postern:key:*', '&postern:keys:changed', '-@all', '+getrange', '+subscribe']
const CONSOLE = ['~postern:key:*', '&postern:keys:changed', '-@all', '+getrange', '+set', '+eval', '+publish']
/** Lets a client find the node that holds a slot. */
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
/** For the gateway, only if rate limits are configured. */
export const LIMIT_RIGHTS = ['~postern:limit:*', '+eval', '+evalsha', '+set', '+incrby', '+pttl']
/** For the console, only if rate limits are configured: its pages show what is left. */
export const COUNTER_RIGHTS = ['~postern:limit:*', '+getrange', '+pttl']
/** For both users, at the Sentinels. */
export const SENTINEL_RIGHTS = ['-@all', '+sentinel|get-master-addr-by-name']

export interface User {
  readonly username: string
  readonly password: string
}

export const GATEWAY_USER: User = { username: 'gateway', password: 'the-password-of-the-gateway' }
export const CONSOLE_USER: User = { username: 'console', password: 'the-password-of-the-console' }
export const SENTINEL_USER: User = { username: 'postern', password: 'the-password-at-the-sentinels' }

/** An ACL selector: these rights apply to these key names alone, so that a limit's rights cannot write key records. */
export function selectorOf(rights: readonly string[]): string {
  return `(${rights.join(' ')})`
}
