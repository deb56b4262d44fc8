import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { configurations } from '../support/check-proxies.ts'

/** Paths of Debian's packages for modules and Lua libraries. */
export const LUA_FILES = {
  module: '/usr/lib/nginx/modules/ngx_http_lua_module.so',
  redis: '/usr/share/lua/5.1/nginx/redis.lua',
  lru: '/usr/share/lua/5.1/resty/lrucache.lua',
  digest: '/usr/share/lua/5.1/nginx/sha256.lua',
} as const

const GATEWAY_LUA = fileURLToPath(new URL('servers/gateway.lua', import.meta.url))

/** Sizes of the response bodies, in bytes. */
export const SMALL = 401
export const LARGE = 11_264
export const HUGE = 8 * 1024 * 1024

/** One process in the foreground, so that its processor time is that of one pid. */
function frame(directory: string, head: string, http: string): string {
  return `${head}
worker_processes 1; daemon off; master_process off;
pid ${directory}/pid; error_log ${directory}/error.log warn;
events { worker_connections 4096; }
http {
  client_body_temp_path ${directory}/t1; proxy_temp_path ${directory}/t2; fastcgi_temp_path ${directory}/t3;
  uwsgi_temp_path ${directory}/t4; scgi_temp_path ${directory}/t5;
  keepalive_requests 1000000000; keepalive_timeout 600; tcp_nodelay on;
${http}
}
`
}

/** Serves files of three sizes under the paths of the API. @returns path of the configuration */
export function writeUpstream(directory: string, port: number): string {
  const files = join(directory, 'files')
  mkdirSync(files, { recursive: true })
  writeFileSync(join(files, 'small'), jsonOf(SMALL))
  writeFileSync(join(files, 'large'), jsonOf(LARGE))
  writeFileSync(join(files, 'huge'), jsonOf(HUGE))
  const http = `
  access_log off; default_type application/json; sendfile on; open_file_cache max=10 inactive=600;
  server {
    listen 127.0.0.1:${port} backlog=4096;
    location ~ ^/api/v1/workspaces/[^/]+$ { root ${files}; try_files /small =404; }
    location ~ ^/api/v1/workspaces/[^/]+/files$ { root ${files}; try_files /large =404; }
    location ~ ^/huge/[^/]+$ { root ${files}; try_files /huge =404; }
    location ~ ^/kept/[^/]+$ { root ${files}; try_files /small =404; add_header Cache-Control max-age=3600; }
    location ~ ^/kept/[^/]+/files$ { root ${files}; try_files /large =404; add_header Cache-Control max-age=3600; }
  }`
  return write(directory, frame(directory, '', http))
}

/** A gateway as a user would write it in nginx and Lua, with a buffered JSON access log. @returns path of the configuration */
export function writeLuaGateway(
  directory: string,
  ports: { own: number; upstream: number; redis: number },
): string {
  const head = `load_module /usr/lib/nginx/modules/ndk_http_module.so; load_module ${LUA_FILES.module};`
  const http = `
  lua_package_path "/usr/share/lua/5.1/?.lua;;";
  log_format json escape=json '{"time":"$time_iso8601","requestId":"$request_id","method":"$request_method",'
    '"keyId":"$key_id","workspaceId":"$workspace","status":$status,"duration":$request_time,"upstream":"$upstream_response_time"}';
  access_log ${directory}/access.log json buffer=64k flush=1s;
  upstream files { server 127.0.0.1:${ports.upstream}; keepalive 128; keepalive_requests 1000000000; }
  init_by_lua_block { decide = dofile("${GATEWAY_LUA}") }
  server {
    listen 127.0.0.1:${ports.own} backlog=4096;
    set $redis_port ${ports.redis};
    set $workspace ''; set $key_id ''; set $scopes '';
    location / {
      access_by_lua_block { decide() }
      proxy_pass http://files; proxy_http_version 1.1;
      proxy_set_header Connection ''; proxy_set_header Authorization '';
      proxy_set_header X-Workspace-Id $workspace; proxy_set_header X-Key-Id $key_id;
      proxy_set_header X-Scopes $scopes; proxy_set_header X-Request-Id $request_id;
      proxy_set_header X-Forwarded-For $remote_addr; proxy_set_header X-Forwarded-Host $http_host;
      proxy_hide_header Server; add_header X-Request-Id $request_id; add_header X-Content-Type-Options nosniff;
    }
  }`
  return write(directory, frame(directory, head, http))
}

const PLAIN_LOG = `
  log_format json escape=json '{"time":"$time_iso8601","method":"$request_method","status":$status,"duration":$request_time}';`

/** nginx that forwards to the public port of a gateway. @returns path of the configuration */
export function writePlainNginx(directory: string, ports: { own: number; gateway: number }): string {
  const http = `${PLAIN_LOG}
  access_log ${directory}/access.log json buffer=64k flush=1s;
  upstream gateways { server 127.0.0.1:${ports.gateway}; keepalive 128; keepalive_requests 1000000000; }
  server {
    listen 127.0.0.1:${ports.own} backlog=4096;
    location / {
      proxy_pass http://gateways; proxy_http_version 1.1;
      proxy_set_header Connection ''; proxy_set_header Host $http_host; proxy_set_header X-Forwarded-For $remote_addr;
    }
  }`
  return write(directory, frame(directory, '', http))
}

/** nginx with the block of docs/check-mode.md, and as many idle connections as the others keep. */
export function writeCheckNginx(
  directory: string,
  ports: { own: number; check: number; upstream: number },
): string {
  const block = (configurations().get('nginx') ?? '')
    .replaceAll('127.0.0.1:8083', `127.0.0.1:${ports.check}`)
    .replaceAll('127.0.0.1:3000', `127.0.0.1:${ports.upstream}`)
    .replaceAll('listen 8000', `listen 127.0.0.1:${ports.own} backlog=4096`)
    .replaceAll('keepalive 32', 'keepalive_requests 1000000000; keepalive 128')
  const http = `${PLAIN_LOG}
  access_log ${directory}/access.log json buffer=64k flush=1s;
  ${block}`
  return write(directory, frame(directory, '', http))
}

function write(directory: string, text: string): string {
  const file = join(directory, 'nginx.conf')
  writeFileSync(file, text)
  return file
}

function jsonOf(bytes: number): string {
  const frameLength = '{"id":"ws_1","text":""}'.length
  return JSON.stringify({ id: 'ws_1', text: 'x'.repeat(bytes - frameLength) })
}
