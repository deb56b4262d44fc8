/** Why Redis fails, in one word each: for metrics and logs. */
type RedisCause =
  | 'noauth'
  | 'wrongpass'
  | 'noperm'
  | 'moved'
  | 'readonly'
  | 'oom'
  | 'loading'
  | 'masterdown'
  | 'clusterdown'
  | 'misconf'
  | 'noreplicas'
  | 'busy'
  | 'max_clients'
  | 'protected_mode'
  | 'database'
  | 'not_redis'
  | 'certificate'
  | 'tls'
  | 'dns'
  | 'refused'
  | 'timeout'
  | 'closed'
  | 'other'

export interface RedisFailure {
  readonly cause: RedisCause
  /** Redis answered with an error, rather than not at all. */
  readonly isAnswer: boolean
  /** Every command that is like it fails too, whichever key it is for. */
  readonly isGeneral: boolean
  /** Another connection may fare better: with other credentials, or at the server that the address leads to now. */
  readonly needsConnection: boolean
  /** It does not pass by itself: attempts may be further apart. */
  readonly needsOperator: boolean
  /** What an operator can do; null if nothing but waiting. */
  readonly advice: string | null
}

interface Row {
  readonly cause: RedisCause
  /** Of the error's message or code. */
  readonly pattern: RegExp
  readonly advice: string
  readonly isAnswer?: boolean
  readonly needsConnection?: boolean
  readonly needsOperator?: boolean
}

const ANSWER = { isAnswer: true }
/** Of this server, or to these credentials. */
const ANSWER_HERE = { ...ANSWER, needsConnection: true }
const MISCONFIGURED = { ...ANSWER_HERE, needsOperator: true }

const CLUSTER_ADVICE =
  'this server is one node of a cluster: set redis.cluster.urls in place of redis.url or redis.sentinel'
const TLS_ADVICE =
  'if this goes on, check that the address is rediss: exactly where the port expects TLS, and that the server accepts more clients'

/** In the order in which they are tried. The patterns are those of Redis 7 and Valkey 9, and of Node. */
const ROWS: readonly Row[] = [
  {
    cause: 'noauth',
    pattern: /^NOAUTH /,
    advice: 'Redis requires a password: set redis.password, and redis.username for an ACL user',
    ...MISCONFIGURED,
  },
  {
    cause: 'wrongpass',
    pattern: /^WRONGPASS |^ERR invalid (?:username-)?password/i,
    advice: 'Redis rejects redis.username or redis.password: set those of an ACL user that is on',
    ...MISCONFIGURED,
  },
  {
    cause: 'noperm',
    pattern: /^NOPERM |ACL failure in script|can't run this command|can't access at least one of the keys/,
    advice: 'the ACL user lacks a right: give it those of docs/redis.md, section "Users and rights"',
    ...MISCONFIGURED,
  },
  { cause: 'moved', pattern: /^(?:MOVED|ASK|CROSSSLOT) /, advice: CLUSTER_ADVICE, ...MISCONFIGURED },
  {
    cause: 'readonly',
    pattern: /^READONLY /,
    advice: 'this server is a replica: set redis.url to the primary, or use redis.sentinel or redis.cluster',
    ...ANSWER_HERE,
  },
  {
    cause: 'oom',
    pattern: /^OOM |command not allowed when used memory/,
    advice: 'Redis is full: raise its maxmemory, or set its maxmemory-policy to volatile-ttl',
    ...ANSWER,
  },
  { cause: 'loading', pattern: /^LOADING /, advice: 'Redis loads its data: wait', ...ANSWER },
  {
    cause: 'masterdown',
    pattern: /^MASTERDOWN /,
    advice: 'this replica has lost its primary: start the primary, or fail over',
    ...ANSWER,
  },
  {
    cause: 'clusterdown',
    pattern: /^CLUSTERDOWN /,
    advice:
      'the cluster lacks a primary for some slots: start its nodes, or fail over (redis-cli --cluster check)',
    ...ANSWER,
  },
  {
    cause: 'misconf',
    pattern: /^MISCONF /,
    advice: 'Redis cannot save its data: free its disk, or set its save or stop-writes-on-bgsave-error',
    ...ANSWER,
  },
  {
    cause: 'noreplicas',
    pattern: /^NOREPLICAS /,
    advice: 'too few replicas are connected: start them, or lower min-replicas-to-write',
    ...ANSWER,
  },
  { cause: 'busy', pattern: /^BUSY /, advice: 'a script blocks Redis: end it with SCRIPT KILL', ...ANSWER },
  {
    cause: 'max_clients',
    pattern: /max number of clients/,
    advice: 'Redis accepts no more connections: raise its maxclients',
    ...ANSWER_HERE,
  },
  {
    cause: 'protected_mode',
    pattern: /^DENIED /,
    advice: 'Redis is in protected mode: give its users passwords',
    ...MISCONFIGURED,
  },
  {
    cause: 'database',
    pattern: /DB index is out of range|SELECT is not allowed/,
    advice: 'redis.url names a database that Redis does not have: a cluster has only 0',
    ...MISCONFIGURED,
  },
  {
    cause: 'not_redis',
    needsOperator: true,
    pattern: /Unknown RESP type|Protocol error/,
    advice: 'what listens there does not speak the protocol of Redis: check host and port',
  },
  {
    cause: 'tls',
    needsOperator: true,
    pattern: /wrong version number|packet length too long|before secure TLS connection/i,
    advice: 'the port does not expect TLS: write redis: in place of rediss:',
  },
  {
    cause: 'certificate',
    needsOperator: true,
    pattern: /alert certificate required|alert handshake failure/,
    advice: 'Redis demands a client certificate, and Postern sends none: set its tls-auth-clients to no',
  },
  {
    cause: 'certificate',
    needsOperator: true,
    pattern: /CERT|SELF_SIGNED|UNABLE_TO_|certificate/,
    advice:
      'set redis.caFile to the authority that issued the certificate of Redis, and use a host name that it contains',
  },
  {
    cause: 'dns',
    pattern: /ENOTFOUND|EAI_/,
    advice: 'the host name does not resolve: check the address of Redis',
  },
  {
    cause: 'refused',
    pattern: /ECONNREFUSED/,
    advice: 'no server listens at this address: start Redis, or check host and port',
  },
  {
    cause: 'timeout',
    pattern: /ETIMEDOUT|timed out|did not answer|EHOSTUNREACH|ENETUNREACH/,
    advice:
      'check that Redis runs, that the network lets the connection pass, and that the address is rediss: exactly where the port expects TLS',
  },
  {
    cause: 'closed',
    pattern: /ECONNRESET|EPIPE|onnection (?:was|is) closed|connection close|max retries per request/i,
    advice: TLS_ADVICE,
  },
]

/**
 * Which failure an error of a Redis client is.
 * @param isReply whether the error is a reply of the server
 */
export function classifyRedisError(error: Error & { code?: unknown }, isReply: boolean): RedisFailure {
  const text = `${error.message} ${typeof error.code === 'string' ? error.code : ''}`
  const row = ROWS.find(({ pattern, isAnswer = false }) => isAnswer === isReply && pattern.test(text))
  return {
    cause: row?.cause ?? 'other',
    isAnswer: isReply,
    isGeneral: row !== undefined,
    needsConnection: row?.needsConnection ?? false,
    needsOperator: row?.needsOperator ?? false,
    advice: chooseAdvice(row, text),
  }
}

/** Names the missing right, as far as Redis does. */
function chooseAdvice(row: Row | undefined, text: string): string | null {
  if (row === undefined) return null
  const command = row.cause === 'noperm' ? /'([a-z|]+)' command/i.exec(text)?.[1] : undefined
  return command === undefined ? row.advice : `the ACL user lacks the right +${command}: see docs/redis.md`
}
