import { describeExternalSecrets } from '../../kubernetes/describe-external-secrets.ts'
import { describeOpenTofu } from '../../kubernetes/describe-opentofu.ts'
import { onControlPlane } from '../../kubernetes/on-control-plane.ts'

onControlPlane(describeOpenTofu, describeExternalSecrets)
