"""Commands that compare, simulate or make data. `lifesafe.cli` names them and imports one when it is used."""
