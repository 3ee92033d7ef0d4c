# Internet2's OS3E; topologies/data/README.md has the source, and what is approximate.
graph [
  Network "OS3E"
  NetworkDate "2011"
  GeoLocation "USA"
  directed 0
  node [
    id 0
    label "Vancouver"
    Latitude 49.28
    Longitude -123.12
    Internal 1
  ]
  node [
    id 1
    label "Seattle"
    Latitude 47.61
    Longitude -122.33
    Internal 1
  ]
  node [
    id 2
    label "Portland"
    Latitude 45.52
    Longitude -122.68
    Internal 1
  ]
  node [
    id 3
    label "Sunnyvale"
    Latitude 37.37
    Longitude -122.04
    Internal 1
  ]
  node [
    id 4
    label "Los Angeles"
    Latitude 34.05
    Longitude -118.24
    Internal 1
  ]
  node [
    id 5
    label "Salt Lake City"
    Latitude 40.76
    Longitude -111.89
    Internal 1
  ]
  node [
    id 6
    label "Missoula"
    Latitude 46.87
    Longitude -113.99
    Internal 1
  ]
  node [
    id 7
    label "Minneapolis"
    Latitude 44.98
    Longitude -93.27
    Internal 1
  ]
  node [
    id 8
    label "Tucson"
    Latitude 32.22
    Longitude -110.97
    Internal 1
  ]
  node [
    id 9
    label "El Paso"
    Latitude 31.76
    Longitude -106.49
    Internal 1
  ]
  node [
    id 10
    label "Albuquerque"
    Latitude 35.08
    Longitude -106.65
    Internal 1
  ]
  node [
    id 11
    label "Denver"
    Latitude 39.74
    Longitude -104.99
    Internal 1
  ]
  node [
    id 12
    label "Kansas City"
    Latitude 39.10
    Longitude -94.58
    Internal 1
  ]
  node [
    id 13
    label "Dallas"
    Latitude 32.78
    Longitude -96.80
    Internal 1
  ]
  node [
    id 14
    label "Houston"
    Latitude 29.76
    Longitude -95.37
    Internal 1
  ]
  node [
    id 15
    label "Baton Rouge"
    Latitude 30.45
    Longitude -91.19
    Internal 1
  ]
  node [
    id 16
    label "Jackson"
    Latitude 32.30
    Longitude -90.18
    Internal 1
  ]
  node [
    id 17
    label "Memphis"
    Latitude 35.15
    Longitude -90.05
    Internal 1
  ]
  node [
    id 18
    label "Nashville"
    Latitude 36.16
    Longitude -86.78
    Internal 1
  ]
  node [
    id 19
    label "Louisville"
    Latitude 38.25
    Longitude -85.76
    Internal 1
  ]
  node [
    id 20
    label "Indianapolis"
    Latitude 39.77
    Longitude -86.16
    Internal 1
  ]
  node [
    id 21
    label "Chicago"
    Latitude 41.88
    Longitude -87.63
    Internal 1
  ]
  node [
    id 22
    label "Cleveland"
    Latitude 41.50
    Longitude -81.69
    Internal 1
  ]
  node [
    id 23
    label "Pittsburgh"
    Latitude 40.44
    Longitude -80.00
    Internal 1
  ]
  node [
    id 24
    label "Buffalo"
    Latitude 42.89
    Longitude -78.88
    Internal 1
  ]
  node [
    id 25
    label "Boston"
    Latitude 42.36
    Longitude -71.06
    Internal 1
  ]
  node [
    id 26
    label "New York"
    Latitude 40.71
    Longitude -74.01
    Internal 1
  ]
  node [
    id 27
    label "Philadelphia"
    Latitude 39.95
    Longitude -75.17
    Internal 1
  ]
  node [
    id 28
    label "Washington DC"
    Latitude 38.91
    Longitude -77.04
    Internal 1
  ]
  node [
    id 29
    label "Ashburn"
    Latitude 39.04
    Longitude -77.49
    Internal 1
  ]
  node [
    id 30
    label "Raleigh"
    Latitude 35.78
    Longitude -78.64
    Internal 1
  ]
  node [
    id 31
    label "Atlanta"
    Latitude 33.75
    Longitude -84.39
    Internal 1
  ]
  node [
    id 32
    label "Jacksonville"
    Latitude 30.33
    Longitude -81.66
    Internal 1
  ]
  node [
    id 33
    label "Miami"
    Latitude 25.76
    Longitude -80.19
    Internal 1
  ]
  edge [
    source 0
    target 1
    LinkSpeed "100"
    LinkSpeedUnits "G"
    LinkSpeedRaw 100000000000.0
  ]
  edge [
    source 1
    target 6
    LinkSpeed "100"
    LinkSpeedUnits "G"
    LinkSpeedRaw 100000000000.0
  ]
  edge [
    source 6
    target 7
    LinkSpeed "100"
    LinkSpeedUnits "G"
    LinkSpeedRaw 100000000000.0
  ]
  edge [
    source 7
    target 21
    LinkSpeed "100"
    LinkSpeedUnits "G"
    LinkSpeedRaw 100000000000.0
  ]
  edge [
    source 1
    target 5
    LinkSpeed "100"
    LinkSpeedUnits "G"
    LinkSpeedRaw 100000000000.0
  ]
  edge [
    source 1
    target 2
    LinkSpeed "100"
    LinkSpeedUnits "G"
    LinkSpeedRaw 100000000000.0
  ]
  edge [
    source 2
    target 3
    LinkSpeed "100"
    LinkSpeedUnits "G"
    LinkSpeedRaw 100000000000.0
  ]
  edge [
    source 3
    target 5
    LinkSpeed "100"
    LinkSpeedUnits "G"
    LinkSpeedRaw 100000000000.0
  ]
  edge [
    source 3
    target 4
    LinkSpeed "100"
    LinkSpeedUnits "G"
    LinkSpeedRaw 100000000000.0
  ]
  edge [
    source 4
    target 5
    LinkSpeed "100"
    LinkSpeedUnits "G"
    LinkSpeedRaw 100000000000.0
  ]
  edge [
    source 4
    target 8
    LinkSpeed "100"
    LinkSpeedUnits "G"
    LinkSpeedRaw 100000000000.0
  ]
  edge [
    source 8
    target 9
    LinkSpeed "100"
    LinkSpeedUnits "G"
    LinkSpeedRaw 100000000000.0
  ]
  edge [
    source 5
    target 11
    LinkSpeed "100"
    LinkSpeedUnits "G"
    LinkSpeedRaw 100000000000.0
  ]
  edge [
    source 11
    target 10
    LinkSpeed "100"
    LinkSpeedUnits "G"
    LinkSpeedRaw 100000000000.0
  ]
  edge [
    source 10
    target 9
    LinkSpeed "100"
    LinkSpeedUnits "G"
    LinkSpeedRaw 100000000000.0
  ]
  edge [
    source 11
    target 12
    LinkSpeed "100"
    LinkSpeedUnits "G"
    LinkSpeedRaw 100000000000.0
  ]
  edge [
    source 12
    target 21
    LinkSpeed "100"
    LinkSpeedUnits "G"
    LinkSpeedRaw 100000000000.0
  ]
  edge [
    source 12
    target 13
    LinkSpeed "100"
    LinkSpeedUnits "G"
    LinkSpeedRaw 100000000000.0
  ]
  edge [
    source 13
    target 14
    LinkSpeed "100"
    LinkSpeedUnits "G"
    LinkSpeedRaw 100000000000.0
  ]
  edge [
    source 9
    target 14
    LinkSpeed "100"
    LinkSpeedUnits "G"
    LinkSpeedRaw 100000000000.0
  ]
  edge [
    source 14
    target 16
    LinkSpeed "100"
    LinkSpeedUnits "G"
    LinkSpeedRaw 100000000000.0
  ]
  edge [
    source 16
    target 17
    LinkSpeed "100"
    LinkSpeedUnits "G"
    LinkSpeedRaw 100000000000.0
  ]
  edge [
    source 17
    target 18
    LinkSpeed "100"
    LinkSpeedUnits "G"
    LinkSpeedRaw 100000000000.0
  ]
  edge [
    source 14
    target 15
    LinkSpeed "100"
    LinkSpeedUnits "G"
    LinkSpeedRaw 100000000000.0
  ]
  edge [
    source 15
    target 32
    LinkSpeed "100"
    LinkSpeedUnits "G"
    LinkSpeedRaw 100000000000.0
  ]
  edge [
    source 21
    target 20
    LinkSpeed "100"
    LinkSpeedUnits "G"
    LinkSpeedRaw 100000000000.0
  ]
  edge [
    source 20
    target 19
    LinkSpeed "100"
    LinkSpeedUnits "G"
    LinkSpeedRaw 100000000000.0
  ]
  edge [
    source 19
    target 18
    LinkSpeed "100"
    LinkSpeedUnits "G"
    LinkSpeedRaw 100000000000.0
  ]
  edge [
    source 18
    target 31
    LinkSpeed "100"
    LinkSpeedUnits "G"
    LinkSpeedRaw 100000000000.0
  ]
  edge [
    source 31
    target 32
    LinkSpeed "100"
    LinkSpeedUnits "G"
    LinkSpeedRaw 100000000000.0
  ]
  edge [
    source 32
    target 33
    LinkSpeed "100"
    LinkSpeedUnits "G"
    LinkSpeedRaw 100000000000.0
  ]
  edge [
    source 21
    target 22
    LinkSpeed "100"
    LinkSpeedUnits "G"
    LinkSpeedRaw 100000000000.0
  ]
  edge [
    source 22
    target 24
    LinkSpeed "100"
    LinkSpeedUnits "G"
    LinkSpeedRaw 100000000000.0
  ]
  edge [
    source 24
    target 25
    LinkSpeed "100"
    LinkSpeedUnits "G"
    LinkSpeedRaw 100000000000.0
  ]
  edge [
    source 25
    target 26
    LinkSpeed "100"
    LinkSpeedUnits "G"
    LinkSpeedRaw 100000000000.0
  ]
  edge [
    source 26
    target 27
    LinkSpeed "100"
    LinkSpeedUnits "G"
    LinkSpeedRaw 100000000000.0
  ]
  edge [
    source 27
    target 28
    LinkSpeed "100"
    LinkSpeedUnits "G"
    LinkSpeedRaw 100000000000.0
  ]
  edge [
    source 22
    target 23
    LinkSpeed "100"
    LinkSpeedUnits "G"
    LinkSpeedRaw 100000000000.0
  ]
  edge [
    source 23
    target 29
    LinkSpeed "100"
    LinkSpeedUnits "G"
    LinkSpeedRaw 100000000000.0
  ]
  edge [
    source 29
    target 28
    LinkSpeed "100"
    LinkSpeedUnits "G"
    LinkSpeedRaw 100000000000.0
  ]
  edge [
    source 28
    target 30
    LinkSpeed "100"
    LinkSpeedUnits "G"
    LinkSpeedRaw 100000000000.0
  ]
  edge [
    source 30
    target 31
    LinkSpeed "100"
    LinkSpeedUnits "G"
    LinkSpeedRaw 100000000000.0
  ]
]
