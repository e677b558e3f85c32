"""`clhines devices`."""

from clhines.device import devices


def test_devices(cli):
    result = cli("devices")
    assert (result.code, result.err) == (0, "")
    lines = result.out.splitlines()
    assert max(map(len, lines)) <= 100
    assert lines[0].split()[:2] == ["index", "type"]
    default = devices.choose()
    for index, found in devices.all_devices():
        (row,) = [line.split() for line in lines if index in line.split()]
        kind = "CPU" if devices.is_cpu(found) else "GPU"
        assert ("simulator" if devices.is_simulator(found) else kind) in row
        assert found.name.split()[0] in row
        assert (row[0] == "*") == (found == default)
