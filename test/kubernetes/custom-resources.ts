import { execFileSync } from 'node:child_process'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** Definitions of the custom resources in examples of the chart and of docs/keys-as-code.md, in the Go modules of the projects that define them. */
const DEFINITIONS: readonly (readonly [string, readonly string[]])[] = [
  ['sigs.k8s.io/gateway-api@v1.3.0', ['config/crd/standard/gateway.networking.k8s.io_httproutes.yaml']],
  [
    'github.com/prometheus-operator/prometheus-operator@v0.85.0',
    ['podmonitors', 'servicemonitors', 'prometheusrules'].map(
      kind => `example/prometheus-operator-crd/monitoring.coreos.com_${kind}.yaml`,
    ),
  ],
  [
    'github.com/grafana/grafana-operator/v5@v5.18.0',
    ['config/crd/bases/grafana.integreatly.org_grafanadashboards.yaml'],
  ],
  [
    'github.com/external-secrets/external-secrets@v1.3.2',
    [
      'config/crds/bases/external-secrets.io_externalsecrets.yaml',
      'config/crds/bases/generators.external-secrets.io_webhooks.yaml',
    ],
  ],
  ['github.com/kedacore/keda/v2@v2.21.0', ['config/crd/bases/keda.sh_scaledobjects.yaml']],
]

/** Files for `kubectl create`. Go downloads the modules, once per machine. */
export function definitionFiles(): string[] {
  return DEFINITIONS.flatMap(([module, files]) => {
    // Outside of any module, whose requirements do not matter here.
    const output = execFileSync('go', ['mod', 'download', '-json', module], {
      cwd: tmpdir(),
      encoding: 'utf8',
    })
    const { Dir } = JSON.parse(output) as { readonly Dir: string }
    return files.map(file => join(Dir, file))
  })
}
